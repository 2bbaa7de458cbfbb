"""Test the locks that keep commands from running at the same time."""

import os
import signal

import pytest

from stack.services.locks import LockedError, hold_lock, read_holder


def test_refuses_a_held_lock_and_names_its_holder(tmp_path):
    path = tmp_path / "lock"
    with (
        hold_lock(path, "stack up"),
        pytest.raises(LockedError, match=rf"`stack up` \(pid {os.getpid()}\)"),
        hold_lock(path, "stack up"),
    ):
        pass
    with hold_lock(path, "stack down"):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe" * 40])
def test_a_damaged_lock_file_names_no_holder_and_can_be_locked(tmp_path, content):
    path = tmp_path / "lock"
    path.write_bytes(content)
    assert read_holder(path) is None
    with hold_lock(path, "stack up"):
        path.write_bytes(content)
        with pytest.raises(LockedError, match="by another command"), hold_lock(path, "stack down"):
            pass


def test_lock_of_a_killed_holder_is_free(spawn, tmp_path):
    path = tmp_path / "lock"
    code = f"import fcntl, os; fcntl.flock(os.open({str(path)!r}, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)"
    child = spawn(code)
    with pytest.raises(LockedError), hold_lock(path, "stack up"):
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    with hold_lock(path, "stack up"):
        pass
