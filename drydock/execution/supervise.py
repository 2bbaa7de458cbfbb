"""Supervise a job's running hosts: wait for their end, and end them early on a stop, a limit or a failure."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from drydock.execution.exits import find_first_failure
from drydock.faults.spot_market import SpotMarket
from drydock.host.executor import RunningHost
from drydock.host.tree import HostTree
from drydock.jobs.job import Job
from drydock.settings import Settings

# Seconds between two checks of the hosts.
TICK_S = 0.1
# The exit code of a command that SIGTERM has ended.
EXIT_CODE_SIGTERM = 143
FAILURE_DELAY_S = 0.5
"""Seconds from the first failure of a host until the others are ended. Hosts that wait for the host that failed often
fail in this time by themselves. Then the record of each exit says which host was the first."""
# When a machine shuts down, every process gets SIGTERM. A job may get it up to this many seconds before the server.
SHUTDOWN_DELAY_S = 1.0


class Cause(StrEnum):
    """The cause of the end of a run. The values are stored in the job's record."""

    EXIT = "exit"
    """The commands ended by themselves, or one failed, and then the server ended those of the other hosts."""
    STOP = "stop"
    """A client requested a stop."""
    RUNTIME = "runtime"
    """MaxRuntimeInSeconds has passed."""
    WAIT = "wait"
    """MaxWaitTimeInSeconds has passed."""
    INTERRUPTION = "interruption"
    """The spot market interrupted the run."""
    SHUTDOWN = "shutdown"
    """The server was shut down."""


@dataclass(frozen=True)
class RunEnd:
    """The end of a run.

    Its exit code is that of the host that failed first, as a shell reports it; 0 if no host failed.
    """

    cause: Cause
    exit_code: int
    failed_host: str = field(default="", compare=False)
    """Name of the host that failed first; "" if none failed, or if only the hosts' exit files say which one."""


class Supervision:
    """Supervises the hosts of one run of a job.

    A stop, a limit, an interruption and a shutdown each send SIGTERM, and SIGKILL after a grace period. If that
    period is 0, they only send SIGKILL. When one host fails, the other hosts are ended in the same way, since the job
    cannot succeed any more.

    Args:
        job: The job. Its stop_event and its limits end the run.
        hosts: The running hosts, algo-1 first.
        trees: The trees of the hosts, in the same order.
        settings: The grace periods.
        market: Decides whether the run is interrupted.
        shutdown: Set when the server shuts down.
    """

    def __init__(
        self,
        job: Job,
        hosts: Sequence[RunningHost],
        trees: Sequence[HostTree],
        settings: Settings,
        market: SpotMarket,
        shutdown: threading.Event,
    ) -> None:
        self._job, self._hosts, self._trees = job, hosts, trees
        self._settings, self._market, self._shutdown = settings, market, shutdown
        self._started_at = time.monotonic()
        self._runtime_ends_at = self._started_at + job.remaining_runtime_s
        self._wait_ends_at = self._started_at + job.remaining_wait_s
        self._cause, self._kill_at = Cause.EXIT, float("inf")
        self._failed_exit_code, self._failed_host = 0, ""
        self._failure_seen_at = float("inf")
        self.notice_s = float("inf")
        """Seconds between SIGTERM and SIGKILL of the interruption that ended the run; infinity without one."""

    def wait_for_end(self, on_tick: Callable[[], None]) -> RunEnd:
        """Wait until no host runs any more, and return how the run ended.

        Args:
            on_tick: Called about ten times a second until then.
        """
        while not all(host.has_exited() for host in self._hosts):
            self._check_causes()
            if time.monotonic() >= self._kill_at:
                for host in self._list_running_hosts():
                    host.kill()
            on_tick()
            time.sleep(TICK_S)
        for host in self._hosts:
            host.finish()
        self._find_failure()
        exit_code = self._failed_exit_code
        # If the server did not send this SIGTERM, either the script itself failed, or the machine is shutting down.
        if self._cause is Cause.EXIT and exit_code == EXIT_CODE_SIGTERM and self._shutdown.wait(SHUTDOWN_DELAY_S):
            self._cause = Cause.SHUTDOWN
        return RunEnd(self._cause, exit_code, self._failed_host)

    def _check_causes(self) -> None:
        if self._cause is not Cause.SHUTDOWN and self._shutdown.is_set():
            self._terminate(Cause.SHUTDOWN, self._settings.shutdown_grace_s)
        elif self._cause is not Cause.EXIT:
            return
        elif (cause := self._find_stop_cause()) is not None:
            self._job.set_stopping()
            self._terminate(cause, self._settings.stop_grace_s)
        elif interruption := self._market.take_due_interruption(self._job, time.monotonic() - self._started_at):
            self.notice_s = interruption.notice_s
            self._terminate(Cause.INTERRUPTION, interruption.notice_s)
        elif not self._failed_exit_code and len(self._hosts) > 1:
            self._end_other_hosts_after_failure()

    def _terminate(self, cause: Cause, grace_s: float) -> None:
        running_hosts = self._list_running_hosts()
        if not running_hosts:
            return  # the command has just ended by itself
        self._cause, self._kill_at = cause, time.monotonic() + grace_s
        for host in running_hosts:
            host.terminate() if grace_s else host.kill()

    def _list_running_hosts(self) -> list[RunningHost]:
        # The process id of a finished host may belong to another process by now, so it must get no signal.
        return [host for host in self._hosts if not host.has_exited()]

    def _end_other_hosts_after_failure(self) -> None:
        """End the hosts that still run, if another host failed at least FAILURE_DELAY_S ago."""
        if any(host.has_exited() and host.finish() for host in self._hosts):
            self._failure_seen_at = min(self._failure_seen_at, time.monotonic())
        if time.monotonic() - self._failure_seen_at >= FAILURE_DELAY_S:
            self._find_failure()
            self._terminate(Cause.EXIT, self._settings.stop_grace_s)

    def _find_failure(self) -> None:
        """Set the exit code and the name of the host that failed first, unless that is known or no host has failed."""
        if self._failed_exit_code:
            return
        codes = {
            tree.host: code
            for host, tree in zip(self._hosts, self._trees, strict=True)
            if host.has_exited() and (code := host.finish())
        }
        if codes:
            first_host = find_first_failure([tree for tree in self._trees if tree.host in codes])
            self._failed_host = first_host or next(iter(codes))
            self._failed_exit_code = codes[self._failed_host]

    def _find_stop_cause(self) -> Cause | None:
        """Return STOP, RUNTIME or WAIT if the job must be stopped now; None if not."""
        if self._job.stop_event.is_set():
            return Cause.STOP
        now = time.monotonic()
        if now >= self._runtime_ends_at:
            return Cause.RUNTIME
        return Cause.WAIT if now >= self._wait_ends_at else None
