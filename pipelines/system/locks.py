"""Locks between processes of one machine, which the kernel releases when their holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import ConflictError


@contextmanager
def hold_lock(path: Path, busy: str = "") -> Iterator[int]:
    """The lock at `path` is this process's for the block; gives the descriptor, for a child that is to hold it too.

    Args:
        path: file of the lock; only who holds it may remove it.
        busy: what to say where another process holds it; where it is empty, this one waits.

    Raises:
        ConflictError: another process holds it, and `busy` says so.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(handle, busy)
            if _is_at(handle, path):
                yield handle
                return
        finally:
            os.close(handle)


def _lock(handle: int, busy: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
    except BlockingIOError:
        raise ConflictError(busy, "Wait for it, or stop it.") from None


def _is_at(handle: int, path: Path) -> bool:
    """Whether the locked file is still the one at `path`: its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
