"""Airflow over a clone of the project, started by hand so that parts of it can be killed; and who kills them."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from stack.layout import Layout
from stack.services import environment, processes
from stack.services.commands import list_services, write_secrets
from stack.services.health import build_health_checks
from stack.services.ports import ANY_PORTS, choose_ports
from stack.services.readiness import create_bucket
from stack.services.record import Stack

PROJECT = Path(__file__).parents[1]
SCHEDULER = "airflow-scheduler"
NEEDED = ("airflow-migrate", SCHEDULER, "airflow-dag-processor", "airflow-api-server")
"""What flights_ingest needs of the stack."""
EVERYTHING = ("drydock", "mlflow", *NEEDED, "airflow-triggerer")
"""What flights_train needs."""


class Yard:
    """The project's clone and the services over it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(self.project)], check=True)
        self.layout = Layout(project=self.project, home=self.project / ".leeway")
        self.layout.create_folders()
        now = dt.datetime.now(dt.UTC)
        self.stack = Stack(id=uuid.uuid4().hex, project=self.project, started_at=now, ports=choose_ports(ANY_PORTS))
        self.services = {one.name: one for one in list_services(self.layout, self.stack)}
        self.env = environment.build_environment(self.layout, self.stack, os.environ)
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """The service runs; one that ends by itself has ended."""
        service = self.services[name]
        with self.layout.log_file(name).open("ab") as log:
            self.children[name] = subprocess.Popen(
                service.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.project
            )
        if service.once and self.children[name].wait():
            raise RuntimeError(f"{name} failed: {self.layout.log_file(name).read_text()[-2000:]}")

    def python(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A command of Python in the project, in the services' environment."""
        command, given = [sys.executable, *arguments], {**self.env, **env}
        done = subprocess.run(command, cwd=self.project, env=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)[:80]}: {done.stderr[-2000:]}")
        return done


@contextmanager
def up(folder: Path, needed: Sequence[str] = NEEDED) -> Iterator[Yard]:
    """A yard whose services `needed` answer; all of them are gone after the block."""
    yard = Yard(folder)
    write_secrets(yard.layout)
    yard.stack.save(yard.layout)
    try:
        for name in needed:
            yard.start(name)
        waiting = [check for name, check in build_health_checks(yard.stack).items() if name in needed]
        while not all(check() for check in waiting):
            time.sleep(0.2)
        if "drydock" in needed:
            create_bucket(yard.stack)
        yield yard
    finally:
        processes.stop_processes(yard.layout.home)
        for child in yard.children.values():
            child.wait()


class Killer:
    """Kills with kill -9, as the work goes on: random processes of tasks, and the scheduler, which is started again.

    What a killed scheduler had started lives on, and the new one starts it again: as where compose restarts it. By the
    work and not by the clock: on a slow machine every try of a task would be killed else.

    Args:
        yard: whose processes.
        tasks: mean number of days that are done between two kills of a task's process.
        schedulers: the same of the scheduler.
    """

    def __init__(self, yard: Yard, tasks: float, schedulers: float, seed: int = 13) -> None:
        self.yard, self.chance = yard, random.Random(seed)
        self.every = {"task": tasks, "scheduler": schedulers}
        self.due = {"task": 0.0, "scheduler": 2.0}
        self.killed: Counter[str] = Counter()

    def __call__(self, done: int) -> None:
        """What is due, with so many days done, is killed."""
        for what, kill in (("task", self._kill_task), ("scheduler", self._kill_scheduler)):
            if done >= self.due[what] and kill():
                self.due[what] = done + self.every[what] * self.chance.uniform(0.5, 1.5)

    def _kill_scheduler(self) -> bool:
        self.yard.children[SCHEDULER].kill()
        self.yard.children[SCHEDULER].wait()
        self.yard.start(SCHEDULER)
        self.killed["scheduler"] += 1
        return True

    def _kill_task(self) -> bool:
        """A step, or the task that runs it, or the supervisor above. False where nothing ran."""
        steps = [one for one in processes.find_processes(self.yard.layout.home) if _is_step(one)]
        if not steps:
            return False
        kind = self.chance.choice(["step", "task", "supervisor"])
        with suppress(psutil.Error):
            found = [(step := self.chance.choice(steps)), *step.parents()]
            found[("step", "task", "supervisor").index(kind)].kill()
            self.killed[kind] += 1
        return True


def _is_step(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.cmdline()[1:4] == ["-u", "-m", "pipelines"]
    return False
