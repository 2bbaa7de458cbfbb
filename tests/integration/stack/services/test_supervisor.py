"""The keeper starts services in order, and ends them all when one ends."""

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


class Kept:
    """A keeper of small services."""

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
        found = Stack.load(self.layout)
        assert found is not None
        return found

    def up(self, *names: str) -> bool:
        found = Stack.load(self.layout)
        return found is not None and set(names) <= set(found.services)

    def gone(self) -> bool:
        return not any(one.alive() for one in self.stack.services.values())


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[type[Kept]]:
    made: list[Kept] = []

    def make(*services: Service) -> Kept:
        made.append(Kept(tmp_path, *services))
        return made[-1]

    yield make  # type: ignore[misc]
    for one in made:
        one.process.terminate()
        one.process.wait(30)


def service(name: str, code: str = SLEEP, once: bool = False) -> Service:
    return Service(name=name, argv=[sys.executable, "-c", code], once=once)


def test_one_session_and_group_led_by_the_keeper(keep, wait_for):
    kept = keep(service("a"), service("b"))
    wait_for(lambda: kept.up("a", "b"))
    pids = [one.pid for one in kept.stack.services.values()]
    import os

    assert {os.getsid(pid) for pid in pids} == {os.getpgid(pid) for pid in pids} == {kept.process.pid}


def test_one_that_ends_takes_the_rest_with_it_and_is_named(keep, wait_for):
    kept = keep(service("a"), service("b"))
    wait_for(lambda: kept.up("a", "b"))
    psutil.Process(kept.stack.services["b"].pid).kill()
    assert kept.process.wait(30) == 1
    assert kept.gone()
    assert (kept.stack.died, kept.stack.services["b"].exit_code) == ("b", -signal.SIGKILL)


def test_sigterm_ends_all_and_names_nobody(keep, wait_for):
    kept = keep(service("a"), service("b"))
    wait_for(lambda: kept.up("a", "b"))
    kept.process.terminate()
    assert kept.process.wait(30) == 0
    assert kept.gone()
    assert kept.stack.died is None


def test_next_one_waits_for_the_end_of_one_that_runs_once(keep, tmp_path, wait_for):
    kept = keep(
        service("first", f"import time; time.sleep(0.3); open({str(tmp_path / 'mark')!r}, 'w')", once=True),
        service("next", f"open({str(tmp_path / 'mark')!r}); {SLEEP}"),
    )
    wait_for(lambda: kept.up("next"))
    assert (tmp_path / "mark").exists()
    assert kept.stack.services["first"].exit_code == 0
    assert kept.stack.died is None


def test_failure_of_one_that_runs_once_ends_all(keep):
    kept = keep(service("a"), service("first", "raise SystemExit(3)", once=True), service("next"))
    assert kept.process.wait(30) == 1
    assert kept.gone()
    assert (kept.stack.died, kept.stack.services["first"].exit_code) == ("first", 3)
    assert "next" not in kept.stack.services
