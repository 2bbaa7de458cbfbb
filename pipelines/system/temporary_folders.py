"""Create temporary folders under LEEWAY_HOME. The next process removes the folders that a killed process left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.settings import settings


@contextmanager
def make_temporary_folder(prefix: str = "spill-") -> Iterator[Path]:
    """Create a temporary folder under LEEWAY_HOME, and remove it when the block ends.

    Folders with this prefix whose process was killed are removed first.

    Args:
        prefix: beginning of the folder's name.
    """
    parent = settings().home / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob(f"{prefix}*"):
        _remove_folder_if_unused(folder)
    folder, lock = _create_locked_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _create_locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Create a folder and lock it; return its path and the lock. The kernel releases the lock when the process ends."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # Until the folder is locked, another process may mistake it for the folder of a killed process, and remove it.
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            _lock(lock)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_folder_if_unused(folder: Path) -> None:
    """Remove a folder that no living process has locked."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # its process has just removed it
        return
    try:
        if _lock(lock, waits=False):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _lock(folder: int, *, waits: bool = True) -> bool:
    """Lock an open folder; return whether this call locked it. Some network file systems cannot lock a folder."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
