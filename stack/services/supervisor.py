"""Start the services of a stack, restart each service that ends, and stop all services if one cannot work.

`stack.services.start_stop` runs this module as `python -m stack.services.supervisor` and writes a `Plan` to its
standard input. The process continues after `make up` has returned, and `make down` ends it. While it runs, no other
process writes stack.json.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from stack.errors import UnavailableError
from stack.layout import Layout
from stack.services.commands import Service
from stack.services.health import build_health_checks
from stack.services.processes import stop_processes
from stack.services.record import Process, Stack, describe_exit_code
from stack.services.service_process import ServiceProcess
from stack.services.shutdown import stop_services

_POLL_S = 0.2


class Plan(BaseModel):
    """The services that the supervisor starts, and their environment."""

    home: Path
    project: Path
    stack: Stack
    services: list[Service]
    environment: dict[str, str]


class Supervisor:
    """Start the services of one plan, restart those that end, and stop them together."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = Layout(home=plan.home, project=plan.project)
        self.stack = plan.stack
        self.stack.supervisor = Process.from_pid(os.getpid())
        self.stop_event = threading.Event()
        checks = build_health_checks(self.layout, self.stack)
        self.processes = {
            service.name: ServiceProcess(
                service,
                self.layout.log_file(service.name),
                plan.environment,
                plan.project,
                checks.get(service.name, lambda: True),
            )
            for service in plan.services
        }

    def run(self) -> int:
        """Run the services, and stop all at the end. Return 0 after a signal, 1 if a service failed."""
        self.stack.save(self.layout)
        while not self._has_to_stop():
            for process in self.processes.values():
                self._advance(process)
            self.stop_event.wait(_POLL_S)
        self.stack.is_stopping = True
        self._save()
        stop_services(self.plan.home, self.stack, excluded_pids=[os.getpid()])
        return 1 if self.stack.failed_service else 0

    def _has_to_stop(self) -> bool:
        return self.stop_event.is_set() or self.stack.failed_service is not None

    def _advance(self, process: ServiceProcess) -> None:
        """Do what is next for a service: handle its end, start it, or check its health."""
        if self._has_to_stop():
            return
        code = process.poll_exit_code()
        if code is not None:
            self._handle_end(process, code)
        elif process.is_due and self._may_start(process):
            self._start(process)
        else:
            process.check_health()

    def _may_start(self, process: ServiceProcess) -> bool:
        """Return whether earlier services that run once are done, and the service that this one needs has answered."""
        for earlier_process in self.processes.values():
            if earlier_process is process:
                break
            if earlier_process.service.runs_once and not earlier_process.is_done:
                return False
        needed_service = process.service.starts_after
        return not needed_service or self.processes[needed_service].has_answered

    def _start(self, process: ServiceProcess) -> None:
        try:
            self.stack.services[process.service.name] = Process.from_pid(process.start())
        except OSError as error:
            # For example, the machine has no free memory, or it has too many processes.
            self._plan_restart(process, f"cannot be started ({error.strerror})", code=1)
        self._save()

    def _handle_end(self, process: ServiceProcess, code: int) -> None:
        self.stack.services[process.service.name].exit_code = code
        if not process.is_done:
            self._stop_leftovers(process.service.name)
            self._plan_restart(process, f"ended ({describe_exit_code(code)})", code)
        self._save()

    def _plan_restart(self, process: ServiceProcess, reason: str, code: int) -> None:
        name, pause_s = process.service.name, process.plan_restart(code)
        if pause_s is None:
            self.stack.failed_service = name
            _log(f"{name} {reason} and is not started again: all services are stopped")
            return
        self.stack.restarts[name] = self.stack.restarts.get(name, 0) + 1
        _log(f"{name} {reason}: it starts again in {pause_s:g} s (restart {self.stack.restarts[name]})")

    def _save(self) -> None:
        """Save the record. While the disk is full, the supervisor continues without it."""
        try:
            self.stack.save(self.layout)
        except OSError as error:
            _log(f"cannot write {self.layout.record_file}: {error.strerror}")

    def _stop_leftovers(self, name: str) -> None:
        """Kill the processes that an ended service has started: they can hold its port, or do its work a second time.

        Only drydock gets SIGTERM: a task of Airflow would report a failure, which would use up one of its tries.
        """
        try:
            stop_processes(self.plan.home, excluded_pids=[os.getpid()], grace_s=0.0, service=name)
        except UnavailableError as error:
            _log(f"{name}: {error}")


def _log(text: str) -> None:
    with suppress(OSError):  # the disk is full
        sys.stdout.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC {text}\n")
        sys.stdout.flush()


def main() -> int:
    """Run the plan on standard input, and return the exit code."""
    supervisor = Supervisor(Plan.model_validate_json(sys.stdin.read()))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.stop_event.set())
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
