"""Test the exit codes that commands leave for the next server."""

import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drydock.execution.exits import CommandExit, find_first_failure, read_command_exit
from drydock.execution.process import ProcessExecutor
from drydock.host.executor import HostPlan
from drydock.host.tree import HostTree
from tests.tools.waiting import wait_until


def make_plan(tree: HostTree, script: str) -> HostPlan:
    """Return the plan of a host that runs a Python script."""
    tree.code.mkdir(parents=True)
    command, env = [sys.executable, "-S", "-c", script], {"PATH": os.defpath}
    addresses = {"algo-1": "127.9.9.1"}
    files = (tree.log, tree.process_file)
    return HostPlan("job", "algo-1", addresses, tree.root, command, env, tree.code, *files, "", 1, 512)


def write_exit(tree: HostTree, exit_code: int, second: int) -> None:
    """Write what a launcher writes."""
    tree.root.parent.mkdir(exist_ok=True)
    tree.exit_file.write_text(json.dumps({"exit_code": exit_code, "ended_at": second}))


def make_exit(exit_code: int, second: int) -> CommandExit:
    """Return the end of a command in a second after 1970."""
    return CommandExit(exit_code, datetime.fromtimestamp(second, UTC))


@pytest.mark.parametrize("opt_ml", [True, False], ids=["opt_ml", "plain"])
@pytest.mark.parametrize(
    ("script", "exit_code"),
    [("", 0), ("raise SystemExit(7)", 7), ("import os; os.abort()", 134)],
)
def test_command_leaves_its_exit_code(tmp_path: Path, script: str, exit_code: int, opt_ml: bool) -> None:
    tree = HostTree(tmp_path / "job" / "algo-1")
    before = datetime.now(UTC)
    host = ProcessExecutor(opt_ml=opt_ml).start(make_plan(tree, script))
    wait_until(host.has_exited)
    assert host.finish() == exit_code
    command_exit = read_command_exit([tree])
    assert command_exit is not None and command_exit.exit_code == exit_code
    assert before <= command_exit.ended_at <= datetime.now(UTC)
    tree.create([])
    assert read_command_exit([tree]) is None


HANDLER = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("method", ["terminate", "kill"])
def test_command_that_is_ended_leaves_no_exit_code(tmp_path: Path, method: str) -> None:
    tree = HostTree(tmp_path / "job" / "algo-1")
    host = ProcessExecutor().start(make_plan(tree, HANDLER))
    wait_until(lambda: "ready" in tree.log.read_text())
    getattr(host, method)()
    wait_until(host.has_exited)
    assert host.finish() == (0 if method == "terminate" else 128 + signal.SIGKILL)
    assert read_command_exit([tree]) is None


def test_command_that_the_next_server_kills_leaves_no_exit_code(tmp_path: Path) -> None:
    tree, executor = HostTree(tmp_path / "job" / "algo-1"), ProcessExecutor()
    host = executor.start(make_plan(tree, HANDLER))
    wait_until(lambda: "ready" in tree.log.read_text())
    assert executor.kill_leftover_host(tree.process_file)
    wait_until(host.has_exited)
    host.finish()
    assert read_command_exit([tree]) is None


def test_all_hosts_must_have_ended_unless_one_has_failed(tmp_path: Path) -> None:
    trees = [HostTree(tmp_path / f"algo-{number}") for number in (1, 2, 3)]
    assert read_command_exit(trees) is None
    write_exit(trees[0], 0, 10)
    write_exit(trees[2], 0, 12)
    assert read_command_exit(trees) is None
    write_exit(trees[1], 0, 11)
    assert read_command_exit(trees) == make_exit(0, 12)
    write_exit(trees[0], 3, 13)
    write_exit(trees[1], 2, 11)
    trees[2].exit_file.unlink()
    assert read_command_exit(trees) == make_exit(2, 11)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"exit_code": 0}', '{"exit_code": "x", "ended_at": 1}'])
def test_file_that_is_no_record_is_ignored(tmp_path: Path, text: str) -> None:
    tree = HostTree(tmp_path / "algo-1")
    tree.exit_file.write_text(text)
    assert read_command_exit([tree]) is None


def test_the_host_that_failed_first_is_found_whatever_ended_it(tmp_path: Path) -> None:
    """When a host is killed, those that wait for it fail within milliseconds."""
    trees = [HostTree(tmp_path / "job" / f"algo-{number}") for number in (1, 2, 3)]
    trees[0].root.parent.mkdir()
    assert find_first_failure(trees) == ""
    trees[0].exit_file.write_text(json.dumps({"exit_code": 1, "ended_at": 20.5, "by_itself": True}))
    trees[1].exit_file.write_text(json.dumps({"exit_code": 137, "ended_at": 20.4, "by_itself": False}))
    trees[2].exit_file.write_text(json.dumps({"exit_code": 0, "ended_at": 1.0, "by_itself": True}))
    assert find_first_failure(trees) == "algo-2"
    trees[1].exit_file.write_text(json.dumps({"exit_code": 137, "ended_at": 20.7, "by_itself": False}))
    assert find_first_failure(trees) == "algo-2", "its end was recorded late"
    trees[1].exit_file.write_text(json.dumps({"exit_code": 3, "ended_at": 20.7, "by_itself": True}))
    assert find_first_failure(trees) == "algo-1"
    trees[1].exit_file.write_text(json.dumps({"exit_code": 137, "ended_at": 20.4, "by_itself": False}))
    # For the next server, a command that was killed did not end by itself: a spot job then resumes.
    assert read_command_exit(trees[1:2]) is None
