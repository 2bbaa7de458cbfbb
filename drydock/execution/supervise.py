"""Watching over a job's running hosts: their own end, a stop, a limit, an interruption, the server's end."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drydock.host.executor import Running
from drydock.jobs.job import Job
from drydock.rehearsal.spot_market import SpotMarket
from drydock.settings import Settings

TICK_S = 0.1


class Why(StrEnum):
    """What ended the run."""

    EXIT = "exit"
    STOP = "stop"
    RUNTIME = "runtime"
    WAIT = "wait"
    INTERRUPTION = "interruption"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class Ending:
    """How the run ended: why, and the exit code as a shell gives it."""

    why: Why
    exit_code: int


class Supervision:
    """One run of a job's hosts.

    A stop, a limit, an interruption and the server's end each send SIGTERM, and SIGKILL after their grace. Once one
    host has failed the others are ended in the same way: the job cannot succeed any more.

    Args:
        job: Its stop_requested and its limits are watched.
        hosts: What runs, algo-1 first.
        settings: The graces.
        market: Asked whether the run is interrupted.
        closing: Set when the server ends.
    """

    def __init__(
        self, job: Job, hosts: Sequence[Running], settings: Settings, market: SpotMarket, closing: threading.Event
    ) -> None:
        self._job, self._hosts, self._settings, self._market, self._closing = job, hosts, settings, market, closing
        self._began = time.monotonic()
        self._runtime_ends = self._began + job.runtime_left_s
        self._wait_ends = self._began + job.wait_left_s
        self._why, self._kill_at = Why.EXIT, float("inf")
        self._failed = 0
        self.notice_s = float("inf")
        """Seconds of notice that an interruption gave."""

    def __call__(self, tick: Callable[[], None]) -> Ending:
        """No host runs any more. Returns how it came to that.

        Args:
            tick: Called about ten times a second while they run.
        """
        while not all(host.exited() for host in self._hosts):
            self._look()
            if time.monotonic() >= self._kill_at:
                for host in self._living():
                    host.kill()
            tick()
            time.sleep(TICK_S)
        codes = [host.finish() for host in self._hosts]
        return Ending(self._why, self._failed or next((code for code in codes if code), 0))

    def _look(self) -> None:
        if self._why is not Why.SHUTDOWN and self._closing.is_set():
            self._terminate(Why.SHUTDOWN, self._settings.shutdown_grace_s)
        elif self._why is Why.EXIT and (reason := self._reason()) is not None:
            self._job.stopping()
            self._terminate(reason, self._settings.stop_grace_s)
        elif self._why is Why.EXIT and (order := self._market.due(self._job, time.monotonic() - self._began)):
            self.notice_s = order.notice_s
            self._terminate(Why.INTERRUPTION, order.notice_s)
        elif self._why is Why.EXIT and not self._failed and len(self._hosts) > 1:
            self._end_others()

    def _terminate(self, why: Why, grace_s: float) -> None:
        self._why, self._kill_at = why, time.monotonic() + grace_s
        for host in self._living():
            host.terminate() if grace_s else host.kill()

    def _living(self) -> list[Running]:
        # The number of a host that was finished may be another process's by now.
        return [host for host in self._hosts if not host.exited()]

    def _end_others(self) -> None:
        for host in self._hosts:
            if host.exited() and (code := host.finish()):
                self._failed = code
                return self._terminate(Why.EXIT, self._settings.stop_grace_s)

    def _reason(self) -> Why | None:
        if self._job.stop_requested.is_set():
            return Why.STOP
        moment = time.monotonic()
        if moment >= self._runtime_ends:
            return Why.RUNTIME
        return Why.WAIT if moment >= self._wait_ends else None
