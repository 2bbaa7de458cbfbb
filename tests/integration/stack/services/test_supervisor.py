"""Test that the supervisor starts services in order, and stops all of them when one ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from stack.layout import Layout
from stack.services.commands import Service
from stack.services.record import Ports, Stack
from stack.services.supervisor import Plan

ROOT = Path(__file__).parents[4]
SLEEP = "import time; time.sleep(600)"


class SupervisorProcess:
    """A real supervisor of small services."""

    def __init__(self, home: Path, *services: Service) -> None:
        self.layout = Layout(home=home, project=home)
        (home / "logs").mkdir()
        stack = Stack(
            id="one",
            project=home,
            started_at=datetime.now(UTC),
            ports=Ports(airflow=1, mlflow=2, drydock=3, docs=4),
        )
        marks = {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": str(home)}
        plan = Plan(home=home, project=home, stack=stack, services=list(services), environment=marks)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stack.services.supervisor"],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env={**marks, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        with self.process.stdin as pipe:
            pipe.write(plan.model_dump_json().encode())

    @property
    def stack(self) -> Stack:
        stack = Stack.load(self.layout)
        assert stack is not None
        return stack

    def has_started(self, *names: str) -> bool:
        stack = Stack.load(self.layout)
        return stack is not None and set(names) <= set(stack.services)

    def has_stopped_all(self) -> bool:
        return not any(process.is_alive() for process in self.stack.services.values())


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[type[SupervisorProcess]]:
    started_processes: list[SupervisorProcess] = []

    def start(*services: Service) -> SupervisorProcess:
        started_processes.append(SupervisorProcess(tmp_path, *services))
        return started_processes[-1]

    yield start  # type: ignore[misc]
    for supervisor in started_processes:
        supervisor.process.terminate()
        supervisor.process.wait(30)


def build_service(name: str, code: str = SLEEP, runs_once: bool = False) -> Service:
    return Service(name=name, argv=[sys.executable, "-c", code], runs_once=runs_once)


def test_supervisor_leads_the_session_and_group_of_all_services(supervise, wait_for):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    pids = [process.pid for process in supervisor.stack.services.values()]
    assert {os.getsid(pid) for pid in pids} == {os.getpgid(pid) for pid in pids} == {supervisor.process.pid}


def test_service_that_ends_is_recorded_and_all_others_are_stopped(supervise, wait_for):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    psutil.Process(supervisor.stack.services["b"].pid).kill()
    assert supervisor.process.wait(30) == 1
    assert supervisor.has_stopped_all()
    assert (supervisor.stack.failed_service, supervisor.stack.services["b"].exit_code) == ("b", -signal.SIGKILL)


def test_sigterm_stops_all_services_and_records_no_failure(supervise, wait_for):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    supervisor.process.terminate()
    assert supervisor.process.wait(30) == 0
    assert supervisor.has_stopped_all()
    assert supervisor.stack.failed_service is None


def test_next_service_waits_for_the_end_of_a_service_that_runs_once(supervise, tmp_path, wait_for):
    supervisor = supervise(
        build_service("first", f"import time; time.sleep(0.3); open({str(tmp_path / 'mark')!r}, 'w')", runs_once=True),
        build_service("next", f"open({str(tmp_path / 'mark')!r}); {SLEEP}"),
    )
    wait_for(lambda: supervisor.has_started("next"))
    assert (tmp_path / "mark").exists()
    assert supervisor.stack.services["first"].exit_code == 0
    assert supervisor.stack.failed_service is None


def test_failure_of_a_service_that_runs_once_stops_all_services(supervise):
    supervisor = supervise(
        build_service("a"), build_service("first", "raise SystemExit(3)", runs_once=True), build_service("next")
    )
    assert supervisor.process.wait(30) == 1
    assert supervisor.has_stopped_all()
    assert (supervisor.stack.failed_service, supervisor.stack.services["first"].exit_code) == ("first", 3)
    assert "next" not in supervisor.stack.services
