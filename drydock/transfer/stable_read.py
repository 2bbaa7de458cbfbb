"""A consistent copy of a file that another process may be writing."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

_ATTEMPTS = 5
_CHUNK_BYTES = 1 << 20


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        FileNotFoundError: The file does not exist, or is not a regular file.
        OSError: The file cannot be read, or is a link.
    """
    # Non-blocking: the file may have been replaced by a fifo without a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    # Unbuffered: a buffer would answer a second read with the bytes of the first.
    return os.fdopen(descriptor, "rb", buffering=0)


def copy_stable(path: Path, folder: Path) -> BinaryIO | None:
    """Return a copy of a file as it was at one moment; None if the file changed during each of five attempts.

    The copy is consistent if a second read finds the same bytes: between both reads, the file had exactly these bytes.

    Args:
        path: The file.
        folder: A folder with room for the copy. The copy has no name there, so it disappears even after a kill -9.

    Raises:
        OSError: The same as for `open_regular_file`, or the disk is full. A retry can help.
    """
    with contextlib.ExitStack() as cleanup, open_regular_file(path) as source:
        copy = cleanup.enter_context(tempfile.TemporaryFile(dir=folder))
        for _ in range(_ATTEMPTS):
            _rewind(source, copy)
            copy.truncate()
            shutil.copyfileobj(source, copy, _CHUNK_BYTES)
            _rewind(source, copy)
            if _have_same_bytes(source, copy):
                cleanup.pop_all()
                return copy
    return None


def _rewind(*streams: BinaryIO) -> None:
    for stream in streams:
        stream.seek(0)


def _have_same_bytes(stream: BinaryIO, other_stream: BinaryIO) -> bool:
    while chunk := stream.read(_CHUNK_BYTES):
        if other_stream.read(len(chunk)) != chunk:
            return False
    return not other_stream.read(1)
