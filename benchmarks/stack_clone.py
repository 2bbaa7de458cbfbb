"""Run the stack on a clone of the project, so that a benchmark can start each service and kill its processes."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from stack.layout import Layout
from stack.services import environment, processes
from stack.services.commands import API_SERVER, SCHEDULER, list_services, write_secrets
from stack.services.health import build_health_checks
from stack.services.ports import ANY_PORTS, choose_ports
from stack.services.readiness import create_bucket
from stack.services.record import Stack

PROJECT = Path(__file__).parents[1]
INGEST_SERVICES = ("airflow-migrate", API_SERVER, "airflow-dag-processor", SCHEDULER)
"""The services that flights_ingest needs."""
TRAIN_SERVICES = ("drydock", "mlflow", *INGEST_SERVICES, "airflow-triggerer")
"""The services that flights_train needs."""


class StackClone:
    """A clone of the project, and the services that run on it.

    Args:
        folder: The folder for the clone.
    """

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(self.project)], check=True)
        self.layout = Layout(project=self.project, home=self.project / ".leeway")
        self.layout.create_folders()
        now = dt.datetime.now(dt.UTC)
        self.stack = Stack(id=uuid.uuid4().hex, project=self.project, started_at=now, ports=choose_ports(ANY_PORTS))
        self.services = {service.name: service for service in list_services(self.layout, self.stack)}
        self.env = environment.build_environment(self.layout, self.stack, os.environ)
        self.children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a service. Wait for the end of a service that runs only once.

        Raises:
            RuntimeError: A service that runs only once has failed.
        """
        service = self.services[name]
        with self.layout.log_file(name).open("ab") as log:
            self.children[name] = subprocess.Popen(
                service.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self.project
            )
        if service.runs_once and self.children[name].wait():
            raise RuntimeError(f"{name} failed: {self.layout.log_file(name).read_text()[-2000:]}")

    def run_python(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the clone, with the services' environment.

        Raises:
            RuntimeError: The exit code is not 0.
        """
        command, full_env = [sys.executable, *arguments], {**self.env, **env}
        process = subprocess.run(command, cwd=self.project, env=full_env, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"{' '.join(arguments)[:80]}: {process.stderr[-2000:]}")
        return process


@contextmanager
def run_stack(folder: Path, names: Sequence[str] = INGEST_SERVICES) -> Iterator[StackClone]:
    """Start services on a clone, wait until they answer, and stop them after the block.

    Args:
        folder: The folder for the clone.
        names: The services to start, in this order.
    """
    clone = StackClone(folder)
    write_secrets(clone.layout)
    clone.stack.save(clone.layout)
    try:
        checks = build_health_checks(clone.layout, clone.stack)
        for name in names:
            if needed_service := clone.services[name].starts_after:
                _wait_until(checks[needed_service])
            clone.start(name)
        for name in checks.keys() & set(names):
            _wait_until(checks[name])
        if "drydock" in names:
            create_bucket(clone.stack)
        yield clone
    finally:
        processes.stop_processes(clone.layout.home)
        for child in clone.children.values():
            child.wait()


def _wait_until(is_healthy: Callable[[], bool]) -> None:
    while not is_healthy():
        time.sleep(0.2)


class Killer:
    """Kill random processes of tasks with SIGKILL, and the scheduler, which is then started again.

    SIGKILL does not end the processes that the scheduler has started. A kill is due after a number of completed days.
    If it were due after a fixed time, every try of a task might be killed on a slow machine.

    Args:
        clone: The stack whose processes are killed.
        days_per_task_kill: Mean number of completed days between two kills of a task's process.
        days_per_scheduler_kill: Mean number of completed days between two kills of the scheduler.
        seed: Seed of the random choices.
    """

    def __init__(
        self, clone: StackClone, days_per_task_kill: float, days_per_scheduler_kill: float, seed: int = 13
    ) -> None:
        self.clone, self.random = clone, random.Random(seed)
        self.days_per_kill = {"task": days_per_task_kill, "scheduler": days_per_scheduler_kill}
        self.next_kill_at_day = {"task": 0.0, "scheduler": 2.0}  # numbers of completed days after which kills are due
        self.kill_counts: Counter[str] = Counter()

    def kill_if_due(self, completed_days: int) -> None:
        """Kill a task's process, the scheduler or both, if the next kill is due after this number of completed days."""
        for target, kill in (("task", self._kill_task), ("scheduler", self._kill_scheduler)):
            if completed_days >= self.next_kill_at_day[target] and kill():
                interval = self.days_per_kill[target] * self.random.uniform(0.5, 1.5)
                self.next_kill_at_day[target] = completed_days + interval

    def _kill_scheduler(self) -> bool:
        """Kill the scheduler, and start it again. Return True."""
        self.clone.children[SCHEDULER].kill()
        self.clone.children[SCHEDULER].wait()
        self.clone.start(SCHEDULER)
        self.kill_counts["scheduler"] += 1
        return True

    def _kill_task(self) -> bool:
        """Kill a step, the task that runs it, or that task's supervisor. Return False if no step is running."""
        steps = [process for process in processes.find_processes(self.clone.layout.home) if _is_step(process)]
        if not steps:
            return False
        target = self.random.choice(["step", "task", "supervisor"])
        with suppress(psutil.Error):
            targets = [(step := self.random.choice(steps)), *step.parents()]
            targets[("step", "task", "supervisor").index(target)].kill()
            self.kill_counts[target] += 1
        return True


def _is_step(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.cmdline()[1:4] == ["-u", "-m", "pipelines"]
    return False
