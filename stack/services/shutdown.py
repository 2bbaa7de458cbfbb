"""Stop all processes of a stack without letting a task of Airflow fail."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from stack.services.commands import SCHEDULER
from stack.services.processes import stop_processes
from stack.services.record import Stack


def stop_services(home: Path, stack: Stack | None, excluded_pids: Iterable[int] = ()) -> int:
    """Stop all processes of the stack, the tasks of Airflow first. Idempotent.

    Tasks get SIGKILL at once. On SIGTERM, a task would report a failure, which uses up one of its tries, and would stop
    its training job. After SIGKILL, the next scheduler starts the task again, and the task finds its job. The scheduler
    itself gets SIGTERM, so that it records its end. The next scheduler then does not have to wait until the last
    heartbeat is too old.

    Args:
        home: the folder of the stack's state.
        stack: the record of the stack; None if it cannot be read.
        excluded_pids: processes that are not stopped.

    Returns:
        the number of processes that were stopped; 0 if none ran.

    Raises:
        UnavailableError: a process did not end after SIGKILL, for example because a disk hangs. A retry can help.
    """
    scheduler_pids = _end_scheduler(stack)
    task_count = stop_processes(home, [*excluded_pids, *scheduler_pids], grace_s=0.0, service=SCHEDULER)
    return task_count + stop_processes(home, excluded_pids)


def _end_scheduler(stack: Stack | None) -> list[int]:
    """Send SIGTERM to the scheduler if it runs, so that it starts no more tasks. Return its pid, if any."""
    process = stack.services.get(SCHEDULER) if stack is not None else None
    if process is None or not process.is_alive():
        return []
    with suppress(psutil.Error):
        psutil.Process(process.pid).terminate()
    return [process.pid]
