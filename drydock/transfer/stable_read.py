"""Read or copy a file that another process may replace or write at the same time."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
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


def has_writer(file: BinaryIO) -> bool:
    """Return whether any process has the file open for writing. False if the system does not report it.

    Args:
        file: The file, open for reading only.
    """
    if not hasattr(fcntl, "F_SETLEASE"):  # only Linux has leases
        return False
    # If a process opens the file during the lease, the kernel sends SIGIO, which would end this server. SIGURG is used
    # instead, because it is ignored by default.
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:  # EAGAIN: there is a writer. Other errors: the file system has no leases.
        return error.errno == errno.EAGAIN
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def copy_stable(path: Path, folder: Path, *, ignore_writers: bool = False) -> BinaryIO | None:
    """Return a copy of a file as it was at one moment; None if it is being written.

    A file is being written if a process has it open for writing, or if it changed during each of five attempts to copy
    it. A copy is consistent if the file's size and time did not change meanwhile, and a second read finds the same
    bytes: between both reads, the file had exactly these bytes.

    Args:
        path: The file.
        folder: A folder with room for the copy. The copy has no name there, so it disappears even after a kill -9.
        ignore_writers: Whether to copy the file although a process has it open for writing.

    Raises:
        OSError: The same as for `open_regular_file`, or the disk is full. A retry can help.
    """
    with contextlib.ExitStack() as cleanup, open_regular_file(path) as source:
        copy = cleanup.enter_context(tempfile.TemporaryFile(dir=folder))
        for _ in range(_ATTEMPTS):
            size_and_time = _read_size_and_time(source)
            if not ignore_writers and has_writer(source):
                return None
            _rewind(source, copy)
            copy.truncate()
            shutil.copyfileobj(source, copy, _CHUNK_BYTES)
            _rewind(source, copy)
            if _have_same_bytes(source, copy) and _read_size_and_time(source) == size_and_time:
                cleanup.pop_all()
                return copy
    return None


def _read_size_and_time(file: BinaryIO) -> tuple[int, int]:
    file_stat = os.fstat(file.fileno())
    return file_stat.st_size, file_stat.st_mtime_ns


def _rewind(*streams: BinaryIO) -> None:
    for stream in streams:
        stream.seek(0)


def _have_same_bytes(stream: BinaryIO, other_stream: BinaryIO) -> bool:
    while chunk := stream.read(_CHUNK_BYTES):
        if other_stream.read(len(chunk)) != chunk:
            return False
    return not other_stream.read(1)
