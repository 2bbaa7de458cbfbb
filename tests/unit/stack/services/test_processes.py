"""Only what carries our marks is found and ended."""

import signal
import socket
from pathlib import Path

import psutil
import pytest

from stack.services import processes

IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
OWN_SESSION = "import os; os.setsid()"
PARENT = (
    "import subprocess, sys; subprocess.Popen("
    "[sys.executable, '-c', 'import time; time.sleep(600)'], env={}, start_new_session=True)"
)


def marks(home: Path) -> dict[str, str]:
    return {"LEEWAY_STACK_ID": "one", "LEEWAY_HOME": str(home)}


def test_marked_process_is_ended(spawn, tmp_path):
    child = spawn("", **marks(tmp_path))
    assert processes.stop(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


def test_process_that_left_group_and_session_is_ended(spawn, tmp_path):
    child = spawn(OWN_SESSION, **marks(tmp_path))
    assert processes.stop(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


def test_process_that_ignores_sigterm_is_killed(spawn, tmp_path):
    child = spawn(IGNORE, **marks(tmp_path))
    assert processes.stop(tmp_path, grace_s=0.3) == 1
    assert child.wait() == -signal.SIGKILL


def test_unmarked_descendant_is_ended(spawn, tmp_path):
    parent = psutil.Process(spawn(PARENT, **marks(tmp_path)).pid)
    (child,) = parent.children()
    assert processes.stop(tmp_path) == 2
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_orphaned_training_job_is_ended(spawn, tmp_path):
    child = spawn("", DRYDOCK_TREE=str(tmp_path / "drydock" / "jobs" / "one"))
    assert processes.stop(tmp_path) == 1
    assert child.wait() == -signal.SIGTERM


SERVING = "import socket; one = socket.create_server(('127.0.0.1', PORT))"


@pytest.mark.parametrize("whose", ["ours", "another home's", "nobody's"])
def test_ports_that_none_of_ours_serves_are_told(spawn, tmp_path, whose):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if whose != "nobody's":
        spawn(SERVING.replace("PORT", str(port)), **marks(tmp_path if whose == "ours" else tmp_path / "other"))
    assert processes.unserved(tmp_path, [port]) == ([] if whose == "ours" else [port])
    assert processes.unserved(tmp_path, []) == []


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
def test_foreign_process_is_left_alone(spawn, tmp_path, environment):
    foreign = spawn("", **{name: value.replace("HOME", str(tmp_path)) for name, value in environment.items()})
    assert processes.stop(tmp_path) == 0
    assert foreign.poll() is None


def test_spared_process_is_left_alone(spawn, tmp_path):
    child = spawn("", **marks(tmp_path))
    assert processes.stop(tmp_path, spare=[child.pid]) == 0
    assert child.poll() is None


def test_this_process_is_never_found(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_marked", lambda process, home: process.pid == psutil.Process().pid)
    assert psutil.Process().pid not in {one.pid for one in processes.find(tmp_path)}
