"""Test that only processes of the stack are found and stopped."""

import signal
import socket
from pathlib import Path

import psutil
import pytest

from stack.services import processes
from stack.services.processes import find_processes, find_unserved_ports, stop_processes
from tests.tools.processes import is_alive

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
    assert not is_alive(child)


def test_stops_an_orphaned_training_job(spawn, tmp_path):
    child = spawn("", DRYDOCK_TREE=str(tmp_path / "drydock" / "jobs" / "one"))
    assert stop_processes(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


DRYDOCK = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", CODE], env=ENV, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
def stop(*_):
    time.sleep(0.5)
    if child.poll() is None:
        print("runs", flush=True)
        child.kill()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
"""
JOB = "print(flush=True); import time; time.sleep(600)"


@pytest.mark.parametrize("has_tree", [True, False], ids=["job", "docker command of a job"])
def test_leaves_a_job_to_the_drydock_that_runs(spawn, tmp_path, has_tree):
    tree = {"DRYDOCK_TREE": str(tmp_path / "drydock" / "jobs" / "one")} if has_tree else {}
    code = DRYDOCK.replace("CODE", repr(JOB)).replace("ENV", repr(tree))
    drydock = spawn(code, "drydock", **build_marks(tmp_path))
    assert stop_processes(tmp_path) >= 1
    assert drydock.wait() == 0
    assert drydock.stdout.readline() == b"runs\n"


def test_leaves_a_job_that_is_no_descendant_to_the_drydock_that_runs(spawn, tmp_path):
    job = spawn("", DRYDOCK_TREE=str(tmp_path / "drydock" / "jobs" / "one"))
    code = f"import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: (os.kill({job.pid}, 9), sys.exit(0)))"
    drydock = spawn(code, "drydock", **build_marks(tmp_path))
    assert stop_processes(tmp_path) >= 1
    assert (drydock.wait(), job.wait()) == (0, -signal.SIGKILL)


def test_stops_the_jobs_of_a_drydock_that_hangs(spawn, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "DRYDOCK_GRACE_S", 0.3)
    code = f"{IGNORE}\n{DRYDOCK.replace('CODE', repr(JOB)).replace('ENV', '{}').rpartition('signal.signal')[0]}"
    drydock = spawn(code, "drydock", **build_marks(tmp_path))
    assert stop_processes(tmp_path, grace_s=0.3) == 2
    assert drydock.wait() == -signal.SIGKILL


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
    monkeypatch.setattr(
        processes, "_has_stack_environment", lambda process, home, service: process.pid == psutil.Process().pid
    )
    assert psutil.Process().pid not in {process.pid for process in find_processes(tmp_path)}
