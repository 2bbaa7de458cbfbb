"""Run the process of one service: start it, detect its end and its first answer, and plan its next start."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from stack.services.commands import Service
from stack.services.processes import SERVICE_VARIABLE
from stack.services.restarts import RestartCounter

_HEALTH_CHECK_INTERVAL_S = 1.0


class ServiceProcess:
    """One service of a running stack.

    Args:
        service: the service to run.
        log: the file that gets the output of all starts.
        environment: the variables that all services have.
        folder: the working folder.
        is_answering: the health check of the service; for a service without a health check, it returns True.

    Attributes:
        has_answered: whether the service has answered since its last start.
        is_done: whether a service that runs once has succeeded.
    """

    def __init__(
        self,
        service: Service,
        log: Path,
        environment: Mapping[str, str],
        folder: Path,
        is_answering: Callable[[], bool],
    ) -> None:
        self.service, self.log, self.folder = service, log, folder
        self.environment = {**environment, SERVICE_VARIABLE: service.name}
        self.counter = RestartCounter()
        self.has_answered = False
        self.is_done = False
        self._is_answering = is_answering
        self._child: subprocess.Popen[bytes] | None = None
        self._start_count = 0
        self._started_at = self._checked_at = 0.0
        """Times of the last start and of the last health check, of the monotonic clock."""
        self._due_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the service does not run, and its next start is due."""
        return self._child is None and not self.is_done and time.monotonic() >= self._due_at

    def start(self) -> int:
        """Start the process and return its pid. The first start begins a new log, and keeps the old one as .log.1."""
        if self._start_count == 0 and self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.service.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
            )
        self._start_count += 1
        self._started_at, self.has_answered = time.monotonic(), False
        return self._child.pid

    def check_health(self) -> None:
        """Check at most once a second whether the service answers, until it has answered once."""
        if self._child is None or self.has_answered or self.service.runs_once:
            return
        if time.monotonic() >= self._checked_at + _HEALTH_CHECK_INTERVAL_S:
            self.has_answered = self._is_answering()
            self._checked_at = time.monotonic()

    def poll_exit_code(self) -> int | None:
        """Return the exit code once after the process has ended, else None."""
        code = self._child.poll() if self._child is not None else None
        if code is not None:
            self._child = None
            self.is_done = self.service.runs_once and code == 0
        return code

    def plan_restart(self, exit_code: int) -> float | None:
        """Return the seconds until the next start; None if the service must not start again.

        A service that runs once starts again only if a signal ended it. After an error, another start would fail, too.
        """
        running_s = time.monotonic() - self._started_at
        has_failed = self.service.runs_once and exit_code > 0
        pause_s = None if has_failed else self.counter.record_end(exit_code, self.has_answered, running_s)
        self.has_answered = False
        self._due_at = time.monotonic() + (pause_s or 0.0)
        return pause_s
