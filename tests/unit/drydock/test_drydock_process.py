"""Process groups."""

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from drydock.errors import JobFailed
from drydock.process import ProcessGroup, kill_left_over


def start(folder: Path, script: str) -> ProcessGroup:
    command = [sys.executable, "-S", "-c", script]
    return ProcessGroup(command, cwd=folder, env={}, log=folder / "log", note=folder / "note")


def wait(group: ProcessGroup) -> None:
    deadline = time.monotonic() + 60
    while not group.exited() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert group.exited()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("print('said')", 0),
        ("import sys; sys.exit('said')", 1),
        ("import os, sys; print('said', flush=True); os.kill(os.getpid(), 15)", 143),
    ],
)
def test_the_exit_code_is_a_shells(tmp_path: Path, script: str, code: int) -> None:
    group = start(tmp_path, script)
    wait(group)
    assert (group.finish(), group.finish()) == (code, code)
    assert (tmp_path / "log").read_text().strip() == "said"
    assert not (tmp_path / "note").exists()


def test_finish_kills_what_still_runs(tmp_path: Path) -> None:
    group = start(tmp_path, "import time; time.sleep(600)")
    assert not group.exited()
    assert json.loads((tmp_path / "note").read_text())["pid"] == group.pid
    assert group.finish() == 137
    assert not psutil.pid_exists(group.pid)


def test_a_command_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match="cannot execute 'no-such-command'"):
        ProcessGroup(["no-such-command"], cwd=tmp_path, env={}, log=tmp_path / "log", note=tmp_path / "note")


@pytest.mark.parametrize("content", [None, "no json", "{}", '{"pid": 1, "create_time": 0}'])
def test_a_note_of_another_process_kills_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "note").write_text(content)
    assert kill_left_over(tmp_path / "note") is False
    assert not (tmp_path / "note").exists()


def test_a_note_of_a_living_process_kills_it(tmp_path: Path) -> None:
    group = start(tmp_path, "import time; time.sleep(600)")
    assert kill_left_over(tmp_path / "note") is True
    assert group.exited()
    assert group.finish() == 137
