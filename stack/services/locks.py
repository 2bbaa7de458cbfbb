"""Lock a file, so that only one command at a time changes the stack.

The kernel releases the lock when the process that holds it ends, even after kill -9.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from stack.errors import UnavailableError
from stack.layout import PROGRAM
from stack.services.record import Process


class Holder(BaseModel):
    """The command and the process that hold a lock."""

    command: str
    process: Process


class LockedError(UnavailableError):
    """Another process holds the lock. A retry can help."""


@contextmanager
def hold_lock(path: Path, command: str) -> Iterator[None]:
    """Hold a lock while the `with` block runs. If it is not free, raise an error at once.

    Args:
        path: file of the lock.
        command: name of this command, which other commands show if they cannot get the lock.

    Raises:
        LockedError: another process holds the lock. A retry can help.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_describe_holder(path)) from None
        os.ftruncate(descriptor, 0)
        holder = Holder(command=command, process=Process.from_pid(os.getpid()))
        os.pwrite(descriptor, holder.model_dump_json().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> Holder | None:
    """Return the command that holds the lock, or held it last; None if its process has ended, or if it is not known."""
    try:
        holder = Holder.model_validate_json(path.read_text())
    except (OSError, ValueError):  # not UTF-8, or not a holder
        return None
    return holder if holder.process.is_alive() else None


def _describe_holder(path: Path) -> str:
    holder = read_holder(path)
    name = f"`{holder.command}` (pid {holder.process.pid})" if holder else "another command"
    return f"The stack is being changed by {name}: wait for it to end. `{PROGRAM} down` ends `up`, `demo` and `replay`."
