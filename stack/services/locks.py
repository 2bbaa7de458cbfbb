"""One at a time: locks that the kernel drops when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from stack.errors import UnavailableError
from stack.services.record import Process


class Holder(BaseModel):
    """Who holds a lock, and for what."""

    command: str
    process: Process


class BusyError(UnavailableError):
    """Somebody else holds the lock."""


@contextmanager
def exclusive(path: Path, command: str) -> Iterator[None]:
    """Holds the lock while the block runs.

    Raises:
        BusyError: another process holds it. Trying again later may work.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(_busy(path)) from None
        os.ftruncate(descriptor, 0)
        holder = Holder(command=command, process=Process.of(os.getpid()))
        os.pwrite(descriptor, holder.model_dump_json().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """The living process that last took the lock, if it has not ended since."""
    try:
        found = Holder.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None
    return found if found.process.alive() else None


def _busy(path: Path) -> str:
    who = holder(path)
    by = f"`{who.command}` (pid {who.process.pid})" if who else "another command"
    return f"The stack is being changed by {by}: wait for it to end, or stop it with `make down`."
