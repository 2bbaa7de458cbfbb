"""Start the services of a stack, watch them, and stop them all when one of them ends.

`stack.services.start_stop` runs this module as `python -m stack.services.supervisor` and writes a `Plan` to its standard
input. The process outlives its starter, so that `make up` can return. `make down` ends it. While it runs, no other
process writes stack.json.
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
from stack.services import processes
from stack.services.commands import Service
from stack.services.record import Process, Stack

_POLL_S = 0.2


class Plan(BaseModel):
    """What to start."""

    home: Path
    project: Path
    stack: Stack
    services: list[Service]
    environment: dict[str, str]


class Keeper:
    """Starts and watches the services of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = Layout(home=plan.home, project=plan.project)
        self.stack = plan.stack
        self.stack.keeper = Process.of(os.getpid())
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.stopping = threading.Event()

    def run(self) -> int:
        """Returns when the services are gone: 0 where that was asked for, 1 where one ended by itself."""
        self.stack.save(self.layout)
        for service in self.plan.services:
            self._start(service)
            while service.once and service.name in self.running and not self._over():
                self.stopping.wait(_POLL_S / 4)
            if self._over():
                break
        while not self._over():
            self.stopping.wait(_POLL_S)
        processes.stop(self.plan.home, spare=[os.getpid()])
        return 1 if self.stack.died else 0

    def _start(self, service: Service) -> None:
        log = self.layout.log(service.name)
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
        self.stack.services[service.name] = Process.of(child.pid)
        self.stack.save(self.layout)

    def _over(self) -> bool:
        """Whether all has to end. Notes what ended by itself."""
        if self.stopping.is_set():
            return True
        for name, child in list(self.running.items()):
            code = child.poll()
            if code is None:
                continue
            del self.running[name]
            self.stack.services[name].exit_code = code
            if not self._was_to_end(name, code):
                self.stack.died = name
            self.stack.save(self.layout)
        return self.stack.died is not None

    def _was_to_end(self, name: str, code: int) -> bool:
        once = {service.name for service in self.plan.services if service.once}
        return name in once and code == 0


def main() -> int:
    """Runs the plan on standard input."""
    keeper = Keeper(Plan.model_validate_json(sys.stdin.read()))
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, lambda *_: keeper.stopping.set())
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main())
