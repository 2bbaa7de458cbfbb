"""Test that only processes of the stack are found and stopped."""

import signal
import socket
from pathlib import Path

import psutil
import pytest

from stack.services import processes
from stack.services.processes import find_processes, find_unserved_ports, stop_processes

IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
OWN_SESSION = "import os; os.setsid()"
PARENT = (
    "import subprocess, sys; subprocess.Popen("
    "[sys.executable, '-c', 'import time; time.sleep(600)'], env={}, start_new_session=True)"
)


def build_marks(home: Path) -> dict[str, str]:
    return {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": str(home)}


def test_stops_a_marked_process(spawn, tmp_path):
    child = spawn("", **build_marks(tmp_path))
    assert stop_processes(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


def test_stops_a_process_that_left_its_group_and_session(spawn, tmp_path):
    child = spawn(OWN_SESSION, **build_marks(tmp_path))
    assert stop_processes(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


def test_kills_a_process_that_ignores_sigterm(spawn, tmp_path):
    child = spawn(IGNORE, **build_marks(tmp_path))
    assert stop_processes(tmp_path, grace_s=0.3) == 1
    assert child.wait() == -signal.SIGKILL


def test_stops_an_unmarked_descendant(spawn, tmp_path):
    parent = psutil.Process(spawn(PARENT, **build_marks(tmp_path)).pid)
    (child,) = parent.children()
    assert stop_processes(tmp_path) == 2
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_stops_an_orphaned_training_job(spawn, tmp_path):
    child = spawn("", DRYDOCK_TREE=str(tmp_path / "drydock" / "jobs" / "one"))
    assert stop_processes(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


SERVING = "import socket; server = socket.create_server(('127.0.0.1', PORT))"


@pytest.mark.parametrize("owner", ["this home", "another home", "nobody"])
def test_finds_ports_that_no_process_of_the_stack_serves(spawn, tmp_path, owner):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if owner != "nobody":
        home = tmp_path if owner == "this home" else tmp_path / "other"
        spawn(SERVING.replace("PORT", str(port)), **build_marks(home))
    assert find_unserved_ports(tmp_path, [port]) == ([] if owner == "this home" else [port])
    assert find_unserved_ports(tmp_path, []) == []


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LEEWAY_HOME": "HOME"},
        {"LEEWAY_STACK_ID": "one"},
        {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": "HOME-2"},
        {"SAGEMAKER_BASE_DIR": "HOME-2/drydock/jobs/one"},
    ],
    ids=["no mark", "home only", "id only", "other home", "job of another home"],
)
def test_does_not_stop_a_foreign_process(spawn, tmp_path, environment):
    foreign = spawn("", **{name: value.replace("HOME", str(tmp_path)) for name, value in environment.items()})
    assert stop_processes(tmp_path) == 0
    assert foreign.poll() is None


def test_does_not_stop_a_spared_process(spawn, tmp_path):
    child = spawn("", **build_marks(tmp_path))
    assert stop_processes(tmp_path, excluded_pids=[child.pid]) == 0
    assert child.poll() is None


def test_never_finds_the_process_that_searches(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_is_marked", lambda process, home, service: process.pid == psutil.Process().pid)
    assert psutil.Process().pid not in {process.pid for process in find_processes(tmp_path)}
