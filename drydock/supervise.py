"""Watching over a running process group: its own end, a stop, its time limit, the server's end."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from drydock.job import TrainingJob
from drydock.process import ProcessGroup
from drydock.settings import Settings

TICK_S = 0.1


class Why(Enum):
    """What ended the run."""

    EXIT = auto()
    STOP = auto()
    RUNTIME = auto()
    SHUTDOWN = auto()


@dataclass(frozen=True)
class Ending:
    """How the run ended: why, and the exit code as a shell gives it."""

    why: Why
    exit_code: int


def supervise(
    job: TrainingJob,
    group: ProcessGroup,
    settings: Settings,
    closing: threading.Event,
    tick: Callable[[], None],
) -> Ending:
    """The group is dead. Returns how it came to that.

    A stop, the time limit and the server's end each send SIGTERM, and SIGKILL after the grace.

    Args:
        job: Its stop_requested and runtime_left_s are watched.
        group: The running process group.
        settings: stop_grace_s and shutdown_grace_s.
        closing: Set when the server ends.
        tick: Called about ten times a second while the group runs.
    """
    deadline = time.monotonic() + job.runtime_left_s
    why, kill_at = Why.EXIT, float("inf")
    while not group.exited():
        if why is not Why.SHUTDOWN and closing.is_set():
            why, kill_at = Why.SHUTDOWN, time.monotonic() + settings.shutdown_grace_s
            group.terminate()
        elif why is Why.EXIT and (reason := _reason(job, deadline)) is not None:
            why, kill_at = reason, time.monotonic() + settings.stop_grace_s
            job.stopping()
            group.terminate()
        elif time.monotonic() >= kill_at:
            group.kill()
        tick()
        time.sleep(TICK_S)
    return Ending(why, group.finish())


def _reason(job: TrainingJob, deadline: float) -> Why | None:
    if job.stop_requested.is_set():
        return Why.STOP
    return Why.RUNTIME if time.monotonic() >= deadline else None
