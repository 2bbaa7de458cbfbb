"""The process executor: a host's start, its end, and what is left of it."""

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

from drydock.errors import JobFailed
from drydock.execution.process import ProcessExecutor, ProcessGroup
from drydock.execution.spawn import start_paused_process
from drydock.host.executor import HostPlan
from tests.tools.waiting import wait_until

Start = Callable[..., ProcessGroup]
# Signals 32 and 33, which nobody but glibc can set: what this process was started with stays.
GLIBCS_OWN = 0b11 << 31
SLEEP = "import time; time.sleep(600)"
# A daemon as a daemon is made: of its own session, its parent gone, its environment clean.
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
    found = ProcessExecutor(opt_ml=request.param)
    if found.has_opt_ml != request.param:
        pytest.skip(f"no view of its own here: {found.opt_ml_problem}")
    return found


def plan(root: Path, script: str, **more: Any) -> HostPlan:
    (root / "code").mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {
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
        "memory_mb": 512,
    }
    return HostPlan(**{**given, **more})


def until(probe: Callable[[], Any]) -> None:
    wait_until(probe, most_s=0.005)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def daemon_of(root: Path) -> int:
    until((root / "code" / "daemon").exists)
    return int((root / "code" / "daemon").read_text())


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("print('said')", 0),
        ("import sys; sys.exit('said')", 1),
        ("import os, sys; print('said', flush=True); os.kill(os.getpid(), 15)", 143),
    ],
)
def test_the_exit_code_is_that_of_a_shell(executor: ProcessExecutor, tmp_path: Path, script: str, code: int) -> None:
    job = plan(tmp_path / "tree", script)
    job.log.write_text("before\n")
    group = executor.start(job)
    until(group.has_exited)
    assert (group.finish(), group.finish()) == (code, code)
    assert job.log.read_text() == "before\nsaid\n"
    assert not job.process_file.exists()


def test_finish_kills_what_still_runs(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = plan(tmp_path / "tree", SLEEP)
    group = executor.start(job)
    assert not group.has_exited()
    assert json.loads(job.process_file.read_text())["pid"] == group.pid
    assert group.finish() == 137
    assert not alive(group.pid) and not job.process_file.exists()


def test_terminate_reaches_the_whole_group(executor: ProcessExecutor, tmp_path: Path) -> None:
    group = executor.start(plan(tmp_path / "tree", "", command=["sh", "-c", "sleep 600 & wait"]))
    until(lambda: psutil.Process(group.pid).children())
    children = psutil.Process(group.pid).children()
    group.terminate()
    until(group.has_exited)
    until(lambda: not any(alive(child.pid) for child in children))
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
def test_reports_what_cannot_be_started(
    executor: ProcessExecutor, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    root = tmp_path / "tree"
    change = {name: root / value if isinstance(value, str) else value for name, value in change.items()}
    before = psutil.Process().children()
    with pytest.raises(JobFailed, match=reason):
        executor.start(plan(root, "print('never')", **change))
    assert psutil.Process().children() == before
    assert not (tmp_path / "tree.json").exists()


def test_a_host_inherits_nothing_from_the_server(executor: ProcessExecutor, tmp_path: Path) -> None:
    command = ["sh", "-c", "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; env"]
    job = plan(tmp_path / "tree", "", command=command)
    started: list[ProcessGroup] = []

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        started.append(executor.start(job))

    leaked = os.open("/etc/hosts", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, ignored)
        os.close(leaked)
    until(started[0].has_exited)
    assert started[0].finish() == 0
    said = job.log.read_text().split()
    assert said[:4] == ["0", "1", "2", "3"]  # 3 is the folder that is listed
    assert said[4:7:2] == ["SigBlk:", "SigIgn:"]
    assert int(said[5], 16) == int(said[7], 16) & ~GLIBCS_OWN == 0
    names = {line.partition("=")[0] for line in said[8:]}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "DRYDOCK_TREE"}


def test_finish_kills_a_daemon(executor: ProcessExecutor, tmp_path: Path) -> None:
    group = executor.start(plan(tmp_path / "tree", DAEMON.format(then=SLEEP)))
    pid = daemon_of(tmp_path / "tree")
    until(group.has_exited)
    assert os.getpgid(pid) != group.pid and alive(pid)
    assert group.finish() == 0
    assert not alive(pid)


def test_finish_kills_a_daemon_with_a_clean_environment(tmp_path: Path) -> None:
    executor = ProcessExecutor()
    if not executor.has_opt_ml:
        pytest.skip(f"no view of its own here: {executor.opt_ml_problem}")
    then = "os.execve('/bin/sh', ['sh', '-c', 'while :; do sleep 1; done'], {})"
    group = executor.start(plan(tmp_path / "tree", DAEMON.format(then=then)))
    pid = daemon_of(tmp_path / "tree")
    until(lambda: psutil.Process(pid).environ().keys() <= {"PWD"})
    group.finish()
    assert not alive(pid)


def test_a_command_does_not_start_before_it_is_released(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = plan(tmp_path / "tree", "open('ran', 'w')")
    process, server = start_paused_process(job, has_opt_ml=executor.has_opt_ml)
    server.close()  # as when the server is killed
    assert process.wait(60) == 1
    assert not (job.cwd / "ran").exists()


@pytest.mark.parametrize(
    "content", [None, "no json", "{}", "[]", '{"pid": 1, "create_time": 0}', '{"pid": "x", "tree": 3}']
)
def test_an_invalid_process_file_kills_nothing(tmp_path: Path, content: str | None) -> None:
    process_file = tmp_path / "process_file"
    if content is not None:
        process_file.write_text(content)
    assert ProcessExecutor(opt_ml=False).kill_leftover(process_file) is False
    assert not process_file.exists()


def test_a_reused_process_id_is_not_killed(tmp_path: Path) -> None:
    executor = ProcessExecutor(opt_ml=False)
    other = executor.start(plan(tmp_path / "other", SLEEP))
    process_file = tmp_path / "process_file"
    process_file.write_text(json.dumps({"pid": other.pid, "create_time": 0, "tree": str(tmp_path / "tree")}))
    assert executor.kill_leftover(process_file) is False
    assert alive(other.pid)
    assert other.finish() == 137


def test_kills_a_leftover_host_and_its_daemon(executor: ProcessExecutor, tmp_path: Path) -> None:
    job = plan(tmp_path / "tree", DAEMON.format(then=SLEEP))
    group = executor.start(job)
    pid = daemon_of(job.root)
    until(group.has_exited)  # the process_file's process is gone, its daemon is not
    assert executor.kill_leftover(job.process_file) is True
    assert not alive(pid) and not job.process_file.exists()
    assert executor.kill_leftover(job.process_file) is False
    group.finish()


def test_kills_only_the_strays_of_its_data_folder(executor: ProcessExecutor, tmp_path: Path) -> None:
    jobs = [plan(tmp_path / "data" / name / "algo-1", SLEEP) for name in ("one", "two")]
    groups = [executor.start(job) for job in jobs]
    other = executor.start(plan(tmp_path / "data-of-another", SLEEP))
    for job in jobs:
        job.process_file.unlink()
    assert executor.kill_strays(tmp_path / "data") == 2
    assert not any(alive(group.pid) for group in groups)
    assert alive(other.pid)
    assert executor.kill_strays(tmp_path / "data") == 0
    assert [group.finish() for group in (*groups, other)] == [137, 137, 137]
