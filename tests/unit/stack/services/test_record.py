"""Records, locks and ports."""

import os
import signal
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.layout import Layout
from stack.services import locks
from stack.services.ports import ANY, choose
from stack.services.record import Ports, Process, Stack, write_atomically


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path, project=tmp_path)


def a_stack(layout: Layout, keeper: Process | None = None) -> Stack:
    ports = Ports(airflow=1, mlflow=2, drydock=3, docs=4)
    return Stack(id="one", project=layout.project, started_at=datetime.now(UTC), ports=ports, keeper=keeper)


def test_record_comes_back_as_saved(layout):
    stack = a_stack(layout, Process.of(os.getpid()))
    stack.save(layout)
    assert Stack.load(layout) == stack
    assert stack.alive()


@pytest.mark.parametrize("text", [None, "", '{"id": "one"', "[]"])
def test_record_that_cannot_be_read_is_no_record(layout, text):
    if text is not None:
        layout.state.write_text(text)
    assert Stack.load(layout) is None


def test_reused_process_number_is_not_alive(layout):
    real = Process.of(os.getpid())
    assert not a_stack(layout, real.model_copy(update={"created": real.created - 1})).alive()


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_atomically(path, "new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_lock_is_refused_while_held_and_names_the_holder(tmp_path):
    path = tmp_path / "lock"
    with (
        locks.exclusive(path, "stack up"),
        pytest.raises(locks.BusyError, match=rf"`stack up` \(pid {os.getpid()}\)"),
        locks.exclusive(path, "stack up"),
    ):
        pass
    with locks.exclusive(path, "stack down"):
        pass


def test_lock_of_a_killed_holder_is_free(spawn, tmp_path):
    path = tmp_path / "lock"
    take = f"import fcntl, os; fcntl.flock(os.open({str(path)!r}, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)"
    child = spawn(take)
    with pytest.raises(locks.BusyError), locks.exclusive(path, "stack up"):
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    with locks.exclusive(path, "stack up"):
        pass


def test_wanted_ports_are_taken_where_free():
    free = choose(ANY)
    assert len(set(free.model_dump().values())) == 4
    assert choose(free) == free


def test_taken_port_is_replaced():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        taken = busy.getsockname()[1]
        assert choose(Ports(airflow=taken, mlflow=0, drydock=0, docs=0)).airflow != taken
