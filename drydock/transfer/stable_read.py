"""A file that another process may be writing, read as it was at one moment."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

_READINGS = 5
_CHUNK_BYTES = 1 << 20


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        FileNotFoundError: It is none, or not there any more.
        OSError: It cannot be read, or a link has taken its place.
    """
    # Not blocking: a fifo may have taken its place, and nobody write to it.
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileNotFoundError(path)
    # Without a buffer, which would answer a second reading from the first.
    return os.fdopen(opened, "rb", buffering=0)


def snapshot(path: Path, beside: Path) -> BinaryIO | None:
    """Return a copy of the file as it was at one moment; None where it was being written at every reading.

    What two readings in a row find is what the file was between them.

    Args:
        path: The file.
        beside: A folder with room for the copy, which has no name there: it is gone whatever ends us.

    Raises:
        OSError: As `open_file`, or there is no room.
    """
    with contextlib.ExitStack() as undo, open_file(path) as source:
        copied = undo.enter_context(tempfile.TemporaryFile(dir=beside))
        for _ in range(_READINGS):
            _rewind(source, copied)
            copied.truncate()
            shutil.copyfileobj(source, copied, _CHUNK_BYTES)
            _rewind(source, copied)
            if _same(source, copied):
                undo.pop_all()
                return copied
    return None


def _rewind(*streams: BinaryIO) -> None:
    for stream in streams:
        stream.seek(0)


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    while chunk := one.read(_CHUNK_BYTES):
        if other.read(len(chunk)) != chunk:
            return False
    return not other.read(1)
