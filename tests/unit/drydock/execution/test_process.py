"""Test the process executor: the start and end of a host, and the processes that it leaves."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from drydock.endpoints.instances.model_server import AUTOGROUP_FILE
from drydock.errors import RunFailed
from drydock.execution.process import ProcessExecutor, ProcessGroup
from drydock.execution.spawn import start_paused_process
from drydock.host.executor import HostPlan
from tests.tools.processes import is_alive
from tests.tools.waiting import wait_until

Start = Callable[..., ProcessGroup]
# Signals 32 and 33. Only glibc can set them, so their state is inherited.
GLIBC_SIGNALS = 0b11 << 31
SLEEP = "import time; time.sleep(600)"
# A typical daemon: it has its own session, and its parent has ended.
DAEMON = """
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
open("daemon.new", "w").write(str(os.getpid()))
os.rename("daemon.new", "daemon")
{then}
"""


@pytest.fixture(params=[True, False], ids=["opt_ml", "plain"])
def executor(request: pytest.FixtureRequest) -> ProcessExecutor:
    """Return an executor with and without /opt/ml."""
    executor = ProcessExecutor(opt_ml=request.param)
    if executor.has_opt_ml != request.param:
        pytest.skip(f"/opt/ml cannot be mounted: {executor.opt_ml_problem}")
    return executor


def make_plan(root: Path, script: str, **fields: Any) -> HostPlan:
    """Return the plan of a host that runs a script."""
    (root / "code").mkdir(parents=True, exist_ok=True)
    defaults: dict[str, Any] = {
        "name": "job",
        "host": "algo-1",
        "addresses": {"algo-1": "127.9.9.1"},
        "root": root,
        "command": [sys.executable, "-S", "-c", script],
        "env": {"PATH": os.defpath},
        "cwd": root / "code",
        "log": root.with_name(f"{root.name}.log"),
        "process_file": root.with_name(f"{root.name}.json"),
        "image": "",
        "cores": 1,
        "memory_mib": 512,
    }
    return HostPlan(**{**defaults, **fields})


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true."""
    wait_until(condition, max_pause_s=0.005)


def wait_for_daemon(root: Path) -> int:
    """Wait for the daemon of a host, and return its process ID."""
    wait_for((root / "code" / "daemon").exists)
    return int((root / "code" / "daemon").read_text())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("print('text')", 0),
        ("import sys; sys.exit('text')", 1),
        ("import os, sys; print('text', flush=True); os.kill(os.getpid(), 15)", 143),
    ],
)
def test_exit_code_is_that_of_a_shell(executor: ProcessExecutor, tmp_path: Path, script: str, code: int) -> None:
    job = make_plan(tmp_path / "tree", script)
    job.log.write_text("before\n")
    group = executor.start(job)
    wait_for(group.has_exited)
    assert (group.finish(), group.finish()) == (code, code)
    assert job.log.read_text() == "before\ntext\n"
    assert not job.process_file.exists()


def test_finish_kills_a_running_host(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", SLEEP)
    group = executor.start(job)
    assert not group.has_exited()
    assert json.loads(job.process_file.read_text())["pid"] == group.pid
    assert group.finish() == 137
    assert not is_alive(group.pid) and not job.process_file.exists()


def test_terminate_reaches_the_whole_group(executor: ProcessExecutor, tmp_path: Path) -> None:
    group = executor.start(make_plan(tmp_path / "tree", "", command=["sh", "-c", "sleep 600 & wait"]))
    wait_for(lambda: psutil.Process(group.pid).children())
    children = psutil.Process(group.pid).children()
    group.terminate()
    wait_for(group.has_exited)
    wait_for(lambda: not any(is_alive(child.pid) for child in children))
    assert group.finish() == 143


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"command": ["no-such-command"]}, "AlgorithmError: cannot execute 'no-such-command': .*No such file"),
        ({"command": ["/etc/passwd"]}, "AlgorithmError: cannot execute '/etc/passwd': .*Permission denied"),
        ({"command": ["a\0b"]}, "AlgorithmError: cannot execute .*null byte"),
        ({"command": []}, "needs --executor docker"),
        ({"cwd": "nowhere"}, "InternalServerError: cannot enter .*nowhere: .*No such file"),
        ({"process_file": "no/such/folder"}, "InternalServerError: cannot start a process: .*No such file"),
        ({"log": "no/such/folder"}, "AlgorithmError: cannot execute .*No such file"),
    ],
)
def test_failed_start_is_reported(
    executor: ProcessExecutor, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    root = tmp_path / "tree"
    change = {name: root / value if isinstance(value, str) else value for name, value in change.items()}
    before = psutil.Process().children()
    with pytest.raises(RunFailed, match=reason):
        executor.start(make_plan(root, "print('never')", **change))
    assert psutil.Process().children() == before
    assert not (tmp_path / "tree.json").exists()


def test_host_inherits_nothing_from_the_server(executor: ProcessExecutor, tmp_path: Path) -> None:
    command = ["sh", "-c", "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; env"]
    job = make_plan(tmp_path / "tree", "", command=command)
    started: list[ProcessGroup] = []

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        started.append(executor.start(job))

    descriptor = os.open("/etc/hosts", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, handler)
        os.close(descriptor)
    wait_for(started[0].has_exited)
    assert started[0].finish() == 0
    words = job.log.read_text().split()
    assert words[:4] == ["0", "1", "2", "3"]  # 3 is the folder that is listed
    assert words[4:7:2] == ["SigBlk:", "SigIgn:"]
    assert int(words[5], 16) == int(words[7], 16) & ~GLIBC_SIGNALS == 0
    names = {line.partition("=")[0] for line in words[8:]}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "DRYDOCK_TREE"}


def test_finish_kills_a_daemon(executor: ProcessExecutor, tmp_path: Path) -> None:
    group = executor.start(make_plan(tmp_path / "tree", DAEMON.format(then=SLEEP)))
    pid = wait_for_daemon(tmp_path / "tree")
    wait_for(group.has_exited)
    assert os.getpgid(pid) != group.pid and is_alive(pid)
    assert group.finish() == 0
    assert not is_alive(pid)


def test_finish_kills_a_daemon_with_a_clean_environment(tmp_path: Path) -> None:
    executor = ProcessExecutor()
    if not executor.has_opt_ml:
        pytest.skip(f"/opt/ml cannot be mounted: {executor.opt_ml_problem}")
    then = "os.execve('/bin/sh', ['sh', '-c', 'while :; do sleep 1; done'], {})"
    group = executor.start(make_plan(tmp_path / "tree", DAEMON.format(then=then)))
    pid = wait_for_daemon(tmp_path / "tree")
    wait_for(lambda: psutil.Process(pid).environ().keys() <= {"PWD"})
    group.finish()
    assert not is_alive(pid)


def test_command_does_not_start_before_it_is_released(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", "open('file', 'w')")
    process, server = start_paused_process(job, has_opt_ml=executor.has_opt_ml)
    server.close()  # as when the server is killed
    assert process.wait(60) == 1
    assert not (job.cwd / "file").exists()


@pytest.mark.parametrize(
    "content", [None, "no json", "{}", "[]", '{"pid": 1, "create_time": 0}', '{"pid": "x", "tree": 3}']
)
def test_invalid_process_file_kills_nothing(tmp_path: Path, content: str | None) -> None:
    process_file = tmp_path / "process_file"
    if content is not None:
        process_file.write_text(content)
    assert ProcessExecutor(opt_ml=False).kill_leftover_host(process_file) is False
    assert not process_file.exists()


def test_reused_process_id_is_not_killed(tmp_path: Path) -> None:
    executor = ProcessExecutor(opt_ml=False)
    other = executor.start(make_plan(tmp_path / "other", SLEEP))
    process_file = tmp_path / "process_file"
    process_file.write_text(json.dumps({"pid": other.pid, "create_time": 0, "tree": str(tmp_path / "tree")}))
    assert executor.kill_leftover_host(process_file) is False
    assert is_alive(other.pid)
    assert other.finish() == 137


def test_leftover_host_and_its_daemon_are_killed(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", DAEMON.format(then=SLEEP))
    group = executor.start(job)
    pid = wait_for_daemon(job.root)
    wait_for(group.has_exited)  # the process of the file has ended, its daemon has not
    assert executor.kill_leftover_host(job.process_file) is True
    assert not is_alive(pid) and not job.process_file.exists()
    assert executor.kill_leftover_host(job.process_file) is False
    group.finish()


def test_only_hosts_of_the_data_folder_are_killed(executor: ProcessExecutor, tmp_path: Path) -> None:
    jobs = [make_plan(tmp_path / "data" / name / "algo-1", SLEEP) for name in ("one", "two")]
    groups = [executor.start(job) for job in jobs]
    other = executor.start(make_plan(tmp_path / "data-of-another", SLEEP))
    for job in jobs:
        job.process_file.unlink()
    assert executor.kill_all_hosts(tmp_path / "data") == 4  # each command and its launcher
    assert not any(is_alive(group.pid) for group in groups)
    assert is_alive(other.pid)
    assert executor.kill_all_hosts(tmp_path / "data") == 0
    assert [group.finish() for group in (*groups, other)] == [137, 137, 137]


@pytest.mark.skipif(not AUTOGROUP_FILE.exists(), reason="this system does not divide the processors among sessions")
@pytest.mark.parametrize("niceness", [7, 0])
def test_session_has_its_priority_from_the_start(niceness: int, tmp_path: Path) -> None:
    executor = ProcessExecutor(opt_ml=False)
    plan = make_plan(tmp_path / "tree", f"print(open({str(AUTOGROUP_FILE)!r}).read())", niceness=niceness)
    host = executor.start(plan)
    wait_for(host.has_exited)
    host.finish()
    assert plan.log.read_text().split()[-1] == str(niceness)
