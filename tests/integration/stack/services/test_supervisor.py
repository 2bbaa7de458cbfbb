"""Test that the supervisor starts services in order, restarts those that end, and stops all when one cannot work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from stack.layout import Layout
from stack.services.commands import Service
from stack.services.ports import is_listening
from stack.services.readiness import StackStoppedError, load_live_stack
from stack.services.record import Ports, Stack
from stack.services.restarts import MAX_FAILED_STARTS
from stack.services.start_stop import join_running_stack
from stack.services.supervisor import Plan
from tests.tools.processes import is_alive

ROOT = Path(__file__).parents[4]
SLEEP = "import time; time.sleep(600)"
LISTEN = """
import http.server, json, os, pathlib, time
while pathlib.Path("held").exists():
    time.sleep(0.02)
port = json.loads(pathlib.Path("stack.json").read_text())["ports"]["docs"]
server = http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
"""
SERVE = f"{LISTEN}\nserver.serve_forever()"
"""The service `docs`, which has a health check. While the file `held` exists, it does not answer."""


class SupervisorProcess:
    """A real supervisor of small services."""

    def __init__(self, home: Path, ports: Ports, *services: Service) -> None:
        self.layout = Layout(home=home, project=home)
        (home / "logs").mkdir()
        stack = Stack(id="one", project=home, started_at=datetime.now(UTC), ports=ports)
        marks = {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": str(home)}
        plan = Plan(home=home, project=home, stack=stack, services=list(services), environment=marks)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stack.services.supervisor"],
            stdin=subprocess.PIPE,
            stdout=self.log.open("wb"),
            cwd=ROOT,
            env={**marks, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        with self.process.stdin as pipe:
            pipe.write(plan.model_dump_json().encode())

    @property
    def log(self) -> Path:
        return self.layout.log_file("supervisor")

    @property
    def stack(self) -> Stack:
        stack = Stack.load(self.layout)
        assert stack is not None
        return stack

    def has_started(self, *names: str) -> bool:
        stack = Stack.load(self.layout)
        return stack is not None and set(names) <= set(stack.services)

    def has_restarted(self, name: str, pid: int) -> bool:
        process = self.stack.services[name]
        return process.pid != pid and process.is_alive()

    def is_answering(self) -> bool:
        return is_listening(self.stack.ports.docs)

    def kill(self, name: str) -> int:
        pid = self.stack.services[name].pid
        psutil.Process(pid).kill()
        return pid

    def list_children(self, name: str) -> list[psutil.Process]:
        return psutil.Process(self.stack.services[name].pid).children()

    def has_stopped_all(self) -> bool:
        return not any(process.is_alive() for process in self.stack.services.values())


@pytest.fixture
def supervise(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[type[SupervisorProcess]]:
    started_processes: list[SupervisorProcess] = []

    def start(*services: Service) -> SupervisorProcess:
        ports = Ports(airflow=free_port(), mlflow=free_port(), drydock=free_port(), docs=free_port())
        started_processes.append(SupervisorProcess(tmp_path, ports, *services))
        return started_processes[-1]

    yield start  # type: ignore[misc]
    for supervisor in started_processes:
        supervisor.process.terminate()
        supervisor.process.wait(30)


def build_service(name: str, code: str = SLEEP, runs_once: bool = False, starts_after: str = "") -> Service:
    return Service(name=name, argv=[sys.executable, "-c", code], runs_once=runs_once, starts_after=starts_after)


def test_supervisor_leads_the_session_and_group_of_all_services(supervise, wait_for):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    pids = [process.pid for process in supervisor.stack.services.values()]
    assert {os.getsid(pid) for pid in pids} == {os.getpgid(pid) for pid in pids} == {supervisor.process.pid}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_service_that_ends_starts_again_and_the_others_stay(supervise, wait_for, number):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    before = supervisor.stack.services
    psutil.Process(before["b"].pid).send_signal(number)
    wait_for(lambda: supervisor.has_restarted("b", before["b"].pid))
    assert supervisor.stack.services["a"] == before["a"]
    assert supervisor.stack.restarts == {"b": 1}
    assert f"b ended ({number.name}): it starts again in 0.5 s (restart 1)" in supervisor.log.read_text()


def test_output_of_a_service_that_ended_is_kept(supervise, wait_for):
    supervisor = supervise(build_service("a", f"print('words of', 'one start', flush=True); {SLEEP}"))
    log = supervisor.layout.log_file("a")
    wait_for(lambda: supervisor.has_started("a") and "words" in log.read_text())
    supervisor.kill("a")
    wait_for(lambda: log.read_text().count("words of one start") == 2)


def test_children_that_hold_the_port_are_killed_before_the_restart(supervise, wait_for):
    code = f"{LISTEN}\nif os.fork() == 0: time.sleep(600)\nserver.serve_forever()"
    supervisor = supervise(build_service("docs", code))
    wait_for(lambda: supervisor.has_started("docs") and supervisor.list_children("docs"))
    assert supervisor.is_answering()
    (child,) = supervisor.list_children("docs")
    pid = supervisor.kill("docs")
    wait_for(lambda: supervisor.has_restarted("docs", pid))
    assert not is_alive(child)
    wait_for(lambda: len(supervisor.list_children("docs")) == 1)
    assert supervisor.stack.restarts == {"docs": 1}


def test_children_of_other_services_stay(supervise, wait_for):
    supervisor = supervise(build_service("a", f"import os; os.fork(); {SLEEP}"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b") and supervisor.list_children("a"))
    (child,) = supervisor.list_children("a")
    pid = supervisor.kill("b")
    wait_for(lambda: supervisor.has_restarted("b", pid))
    assert child.is_running()


@pytest.mark.soak
def test_service_that_ends_each_time_before_it_answers_stops_all_services(supervise):
    supervisor = supervise(build_service("a"), build_service("docs", "raise SystemExit(3)"))
    assert supervisor.process.wait(60) == 1
    assert supervisor.has_stopped_all()
    stack = supervisor.stack
    assert (stack.failed_service, stack.services["docs"].exit_code) == ("docs", 3)
    assert stack.restarts == {"docs": MAX_FAILED_STARTS - 1}
    with pytest.raises(StackStoppedError) as error:
        load_live_stack(supervisor.layout, stack)
    log = supervisor.layout.log_file("docs")
    assert str(error.value) == f"docs ended by itself (exit code 3), {MAX_FAILED_STARTS} times in total; see {log}."


def test_service_starts_after_the_one_that_it_needs_answers(supervise, tmp_path, wait_for):
    (tmp_path / "held").touch()
    supervisor = supervise(build_service("docs", SERVE), build_service("b"), build_service("a", starts_after="docs"))
    wait_for(lambda: supervisor.has_started("docs", "b"))
    assert not supervisor.has_started("a")
    (tmp_path / "held").unlink()
    wait_for(lambda: supervisor.has_started("a"))
    assert supervisor.is_answering()
    (tmp_path / "held").touch()
    supervisor.kill("docs")
    pid = supervisor.kill("a")
    wait_for(lambda: set(supervisor.stack.restarts) == {"docs", "a"} and supervisor.stack.services["docs"].is_alive())
    assert not supervisor.has_restarted("a", pid)
    (tmp_path / "held").unlink()
    wait_for(lambda: supervisor.has_restarted("a", pid))
    assert supervisor.is_answering()


def test_service_that_is_killed_during_the_stop_does_not_start_again(supervise, wait_for):
    slow_end = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit(0)))"
    slow_service = build_service("a", f"{slow_end}; print('ready', flush=True); time.sleep(600)")
    supervisor = supervise(slow_service, build_service("b"))
    log = supervisor.layout.log_file("a")
    wait_for(lambda: supervisor.has_started("a", "b") and "ready" in log.read_text())
    supervisor.process.terminate()
    wait_for(lambda: supervisor.stack.is_stopping)
    with suppress(psutil.Error):
        psutil.Process(supervisor.stack.services["b"].pid).kill()
    assert supervisor.process.wait(30) == 0
    assert supervisor.has_stopped_all()
    assert supervisor.stack.restarts == {}


def test_sigterm_stops_all_services_and_records_no_failure(supervise, wait_for):
    supervisor = supervise(build_service("a"), build_service("b"))
    wait_for(lambda: supervisor.has_started("a", "b"))
    supervisor.process.terminate()
    assert supervisor.process.wait(30) == 0
    assert supervisor.has_stopped_all()
    assert supervisor.stack.failed_service is None


def test_up_waits_for_the_end_of_a_stack_that_stops(supervise, wait_for):
    slow_end = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), exit(0)))"
    supervisor = supervise(build_service("mlflow", f"{slow_end}; print('ready', flush=True); time.sleep(600)"))
    log = supervisor.layout.log_file("mlflow")
    wait_for(lambda: supervisor.has_started("mlflow") and "ready" in log.read_text())
    supervisor.process.terminate()
    assert join_running_stack(supervisor.layout, lambda *_: None) is None
    assert not supervisor.stack.is_alive()
    assert supervisor.has_stopped_all()


SCHEDULER_WITH_TASK = """
import os, pathlib, signal, sys, time

def end(name):
    pathlib.Path(name).touch()
    sys.exit()

name = "scheduler.ended" if os.fork() else "task.reported"
signal.signal(signal.SIGTERM, lambda *_: end(name))
pathlib.Path(name + ".soon").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["airflow-scheduler", "mlflow"])
def test_task_gets_no_sigterm_by_which_it_would_report_a_failure(supervise, tmp_path, wait_for, name):
    """The second name is the control: the children of another service end as they do on SIGTERM."""
    supervisor = supervise(build_service(name, SCHEDULER_WITH_TASK))
    wait_for(lambda: (tmp_path / "scheduler.ended.soon").exists() and (tmp_path / "task.reported.soon").exists())
    supervisor.process.terminate()
    assert supervisor.process.wait(30) == 0
    assert supervisor.has_stopped_all()
    assert (tmp_path / "scheduler.ended").exists()
    assert (tmp_path / "task.reported").exists() == (name != "airflow-scheduler")


def test_service_for_which_no_process_can_be_created_is_tried_again(supervise, tmp_path, wait_for):
    supervisor = supervise(build_service("a"), Service(name="b", argv=[str(tmp_path / "program")]))
    wait_for(lambda: "b cannot be started (No such file or directory): it starts again" in supervisor.log.read_text())
    (tmp_path / "program").symlink_to("/bin/cat")
    wait_for(lambda: supervisor.has_started("a", "b"))


def test_next_service_waits_for_the_end_of_a_service_that_runs_once(supervise, tmp_path, wait_for):
    supervisor = supervise(
        build_service("first", f"import time; time.sleep(0.3); open({str(tmp_path / 'mark')!r}, 'w')", runs_once=True),
        build_service("next", f"open({str(tmp_path / 'mark')!r}); {SLEEP}"),
    )
    wait_for(lambda: supervisor.has_started("next"))
    assert (tmp_path / "mark").exists()
    assert supervisor.stack.services["first"].exit_code == 0
    assert supervisor.stack.failed_service is None


def test_service_that_runs_once_and_is_killed_starts_again(supervise, tmp_path, wait_for):
    (tmp_path / "held").touch()
    wait = "import pathlib, time\nwhile pathlib.Path('held').exists(): time.sleep(0.02)"
    supervisor = supervise(build_service("first", wait, runs_once=True), build_service("next"))
    wait_for(lambda: supervisor.has_started("first"))
    supervisor.kill("first")
    wait_for(lambda: supervisor.stack.restarts == {"first": 1})
    assert not supervisor.has_started("next")
    (tmp_path / "held").unlink()
    wait_for(lambda: supervisor.has_started("next"))


def test_failure_of_a_service_that_runs_once_stops_all_services(supervise):
    supervisor = supervise(
        build_service("a"), build_service("first", "raise SystemExit(3)", runs_once=True), build_service("next")
    )
    assert supervisor.process.wait(30) == 1
    assert supervisor.has_stopped_all()
    assert (supervisor.stack.failed_service, supervisor.stack.services["first"].exit_code) == ("first", 3)
    assert "next" not in supervisor.stack.services
