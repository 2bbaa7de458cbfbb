"""Hold locks between processes of one machine. The kernel releases a lock when its holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import ConflictError


@contextmanager
def hold_lock(path: Path, busy_message: str = "") -> Iterator[int]:
    """Hold the lock at `path` while the block runs.

    Yields:
        The file descriptor of the lock, to pass to a child that must hold the lock, too.

    Args:
        path: the lock file; only the holder of the lock may remove it.
        busy_message: message of the error if another process holds the lock; empty: wait for the lock.

    Raises:
        ConflictError: another process holds the lock, and `busy_message` is not empty. A retry can help.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(descriptor, busy_message)
            if _is_still_at(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, busy_message: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy_message else 0))
    except BlockingIOError:
        raise ConflictError(busy_message, "Wait for it, or stop it.") from None


def _is_still_at(descriptor: int, path: Path) -> bool:
    """Return whether the locked file is still at `path`; the previous holder may have removed it in the meantime."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
