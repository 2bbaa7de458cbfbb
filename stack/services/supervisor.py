"""Start the services of a stack, watch them, and stop them all when one of them ends.

`stack.services.start_stop` runs this module as `python -m stack.services.supervisor` and writes a `Plan` to its
standard input. The process outlives its starter, so that `make up` can return. `make down` ends it. While it runs, no
other process writes stack.json.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pydantic import BaseModel

from stack.layout import Layout
from stack.services.commands import Service
from stack.services.processes import stop_processes
from stack.services.record import Process, Stack

_POLL_S = 0.2


class Plan(BaseModel):
    """The services that the supervisor starts, and their environment."""

    home: Path
    project: Path
    stack: Stack
    services: list[Service]
    environment: dict[str, str]


class Supervisor:
    """Start the services of one plan, watch them, and stop them together."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = Layout(home=plan.home, project=plan.project)
        self.stack = plan.stack
        self.stack.supervisor = Process.from_pid(os.getpid())
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.stop_requested = threading.Event()

    def run(self) -> int:
        """Run the services until a signal arrives (returns 0), or until one ends by itself (returns 1)."""
        self.stack.save(self.layout)
        for service in self.plan.services:
            self._start(service)
            # `_has_to_stop` removes each service that has ended from `running`.
            while service.runs_once and service.name in self.running and not self._has_to_stop():
                self.stop_requested.wait(_POLL_S / 4)
            if self._has_to_stop():
                break
        while not self._has_to_stop():
            self.stop_requested.wait(_POLL_S)
        stop_processes(self.plan.home, excluded_pids=[os.getpid()])
        return 1 if self.stack.failed_service else 0

    def _start(self, service: Service) -> None:
        log = self.layout.log_file(service.name)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        with log.open("wb") as output:
            child = subprocess.Popen(
                service.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.plan.environment,
                cwd=self.plan.project,
            )
        self.running[service.name] = child
        self.stack.services[service.name] = Process.from_pid(child.pid)
        self.stack.save(self.layout)

    def _has_to_stop(self) -> bool:
        """Record which services have ended; return whether all services have to stop."""
        if self.stop_requested.is_set():
            return True
        for name, child in list(self.running.items()):
            code = child.poll()
            if code is None:
                continue
            del self.running[name]
            self.stack.services[name].exit_code = code
            if not self._is_expected_end(name, code):
                self.stack.failed_service = name
            self.stack.save(self.layout)
        return self.stack.failed_service is not None

    def _is_expected_end(self, name: str, code: int) -> bool:
        one_time_services = {service.name for service in self.plan.services if service.runs_once}
        return name in one_time_services and code == 0


def main() -> int:
    """Run the plan on standard input, and return the exit code."""
    supervisor = Supervisor(Plan.model_validate_json(sys.stdin.read()))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.stop_requested.set())
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
