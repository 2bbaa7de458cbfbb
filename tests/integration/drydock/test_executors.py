"""Test the contract of all executors: processes with /opt/ml, processes without it, and containers of a real engine."""

import collections
import dataclasses
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from drydock.errors import RunFailed
from drydock.execution.container import ContainerExecutor
from drydock.execution.engine import run_docker
from drydock.execution.image import Images
from drydock.execution.process import ProcessExecutor
from drydock.host.executor import Executor, HostPlan, RunningHost
from tests.tools.python_image import IMAGE
from tests.tools.waiting import wait_until

REPOSITORY = Path(__file__).parents[3]
TIMEOUT_S = 120.0
SECRET = "not-to-be-seen-by-other-users"
REPORTS_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("stopping"), sys.exit(7)))
print("ready", flush=True)
for _ in range(6_000):  # one long sleep would not end if the signal came just before it
    time.sleep(0.1)
"""
FILL_MEMORY = "blocks = [bytearray(1 << 20) for _ in range(4096)]; print(len(blocks))"
# Works like a server: starts a host with a daemon, prints that, and is killed.
SERVER = """
import os, sys, time
from pathlib import Path
from drydock.host.executor import HostPlan
from drydock.execution.process import ProcessExecutor
root = Path(sys.argv[1])
root.mkdir(parents=True)
executor = ProcessExecutor()
print("starts", flush=True)
command = ["sh", "-c", "setsid sleep 600 & echo on; sleep 600"]
executor.start(HostPlan("job", "algo-1", {"algo-1": "127.9.7.1"}, root, command,
               {"PATH": os.defpath}, root, root.with_name("log"), root.with_name("process_file"), "", 1, 512))
time.sleep(600)
"""


def wait_for(condition: Callable[..., Any]) -> None:
    """Wait until a condition is true."""
    wait_until(condition, TIMEOUT_S, max_pause_s=0.01)


@pytest.fixture(params=["opt_ml", "plain", "container"])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Return each executor in turn."""
    if request.param == "container":
        request.getfixturevalue("image")
        return ContainerExecutor(Images())
    executor = ProcessExecutor(opt_ml=request.param == "opt_ml")
    if request.param == "opt_ml" and not executor.has_opt_ml:
        pytest.skip(f"/opt/ml cannot be mounted: {executor.opt_ml_problem}")
    return executor


@pytest.fixture
def containers(image: str) -> ContainerExecutor:
    """Return an executor of containers."""
    return ContainerExecutor(Images())


def make_plan(root: Path, executor: Executor, script: str, **fields: Any) -> HostPlan:
    """Return the plan of a host that runs a script."""
    (root / "code").mkdir(parents=True, exist_ok=True)
    defaults: dict[str, Any] = {
        "name": "job",
        "host": "algo-1",
        "addresses": {"algo-1": "127.9.7.1", "algo-2": "127.9.7.2"},
        "root": root,
        "command": [executor.get_interpreter(), "-c", script],
        "env": {"BASE": executor.get_path_in_job(root), "PYTHONUNBUFFERED": "1"},
        "cwd": root / "code",
        "log": root.with_name(f"{root.name}.log"),
        "process_file": root.with_name(f"{root.name}.json"),
        "image": IMAGE,
        "cores": 1,
        "memory_mib": 512,
    }
    return HostPlan(**{**defaults, **fields})


def wait_for_exit(running_host: RunningHost) -> int:
    """Wait for the end of a host, and return its exit code."""
    wait_for(running_host.has_exited)
    return running_host.finish()


def test_host_works_in_its_folder(executor: Executor, tmp_path: Path) -> None:
    script = "import os; print(os.getcwd() == os.environ['BASE'] + '/code'); open(os.environ['BASE'] + '/file', 'w')"
    job = make_plan(tmp_path / 'a "folder" with a comma, and spaces', executor, script)
    job.log.write_text("before\n")
    running_host = executor.start(job)
    assert wait_for_exit(running_host) == running_host.finish() == 0
    assert job.log.read_text() == "before\nTrue\n"
    assert (job.root / "file").stat().st_uid == os.getuid()
    assert not job.process_file.exists()


@pytest.mark.parametrize(
    ("script", "code"),
    [("import sys; sys.exit('no')", 1), ("raise SystemExit(125)", 125), ("import os; os.kill(os.getpid(), 11)", 139)],
)
def test_finish_returns_the_exit_code(executor: Executor, tmp_path: Path, script: str, code: int) -> None:
    assert wait_for_exit(executor.start(make_plan(tmp_path / "tree", executor, script))) == code


def test_running_host_writes_its_log_and_receives_sigterm(executor: Executor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", executor, REPORTS_SIGTERM)
    running_host = executor.start(job)
    wait_for(lambda: "ready" in job.log.read_text())
    assert not running_host.has_exited()
    running_host.terminate()
    assert wait_for_exit(running_host) == 7
    assert job.log.read_text() == "ready\nstopping\n"


def test_sigterm_ends_a_command_without_handlers(executor: Executor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", executor, "import time; print('ready'); time.sleep(600)")
    running_host = executor.start(job)
    wait_for(lambda: "ready" in job.log.read_text())
    running_host.terminate()
    assert wait_for_exit(running_host) == 143


def test_finish_kills_the_host(executor: Executor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", executor, "import time; time.sleep(600)")
    running_host = executor.start(job)
    assert job.process_file.exists() and running_host.finish() == 137
    assert not job.process_file.exists() and not psutil.pid_exists(running_host.pid)


def test_environment_is_the_one_of_the_plan(executor: Executor, tmp_path: Path) -> None:
    values = {
        "LINES": "one\ntwo\n\nfour\r\n",
        "SEPARATOR": "a\u2028b",
        "LONG": "x" * 100_000,
        "ACCENTS": "é #=\"'$HOME \\n",
        "SPACES": "  around  ",
        "EMPTY": "",
    }
    job = make_plan(tmp_path / "tree", executor, "import json, os; json.dump(dict(os.environ), open('env', 'w'))")
    job = make_plan(job.root, executor, job.command[-1], env={**job.env, **values, "PYTHONUTF8": "1"})
    assert wait_for_exit(executor.start(job)) == 0, job.log.read_text()
    env = json.loads((job.cwd / "env").read_text(encoding="utf-8"))
    assert {name: env[name] for name in values} == values
    assert "DOCKER_HOST" not in env and "VIRTUAL_ENV" not in env  # variables of the server


def test_hosts_reach_each_other(executor: Executor, tmp_path: Path) -> None:
    serve = """
import os, socket
listener = socket.create_server((os.environ["OWN"], 29501))
open(os.environ["BASE"] + "/ready", "w")
print(listener.accept()[0].recv(99).decode())
"""
    connect = """
import os, socket
own = socket.create_server((os.environ["OWN"], 29501))
socket.create_connection((os.environ["OTHER"], 29501)).sendall(b"hello")
"""
    names = ["algo-1", "algo-2"] if executor.has_opt_ml else ["127.9.7.1", "127.9.7.2"]
    hosts = []
    for number, script in enumerate([serve, connect]):
        job = make_plan(tmp_path / f"algo-{number + 1}", executor, script, host=f"algo-{number + 1}")
        env = {**job.env, "OWN": names[number], "OTHER": names[1 - number]}
        hosts.append(executor.start(make_plan(job.root, executor, script, host=job.host, env=env)))
        wait_for(lambda job=job, number=number: number == 1 or (job.root / "ready").exists())
    assert [wait_for_exit(host) for host in hosts] == [0, 0]
    assert (tmp_path / "algo-1.log").read_text() == "hello\n"


def test_leftover_hosts_and_processes_are_killed(executor: Executor, tmp_path: Path) -> None:
    sleep = "import time; time.sleep(600)"
    jobs = [make_plan(tmp_path / folder / "tree", executor, sleep) for folder in ("data/1", "data/2", "other")]
    hosts = [executor.start(job) for job in jobs]
    assert executor.kill_leftover_host(jobs[0].process_file) is True
    assert executor.kill_leftover_host(jobs[0].process_file) is False and not jobs[0].process_file.exists()
    jobs[1].process_file.unlink()
    assert executor.kill_all_hosts(tmp_path / "data") == (1 if executor.is_container else 2)  # 2: with the launcher
    wait_for(lambda: hosts[0].has_exited() and hosts[1].has_exited())
    assert not hosts[2].has_exited()  # it has another data folder
    assert executor.kill_all_hosts(tmp_path / "data") == 0
    assert hosts[2].finish() == 137


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_host_of_a_killed_server_is_always_found(tmp_path: Path, kills: int) -> None:
    executor, generator, kill_count = ProcessExecutor(), random.Random(20), 0
    for number in range(kills):
        data = tmp_path / str(number)
        command = [sys.executable, "-c", SERVER, str(data / "tree")]
        server = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, start_new_session=True)
        assert server.stdout is not None and server.stdout.readline() == b"starts\n"
        time.sleep(generator.uniform(0, 0.1))
        if number == kills - 1:  # the last server is killed only when its host runs, also on a slow machine
            wait_for(lambda data=data: (data / "log").exists() and (data / "log").read_text() == "on\n")
        server.kill()
        server.wait()
        server.stdout.close()
        kill_count += executor.kill_leftover_host(data / "process_file") + executor.kill_all_hosts(data)
        wait_for(lambda data=data: not find_processes(data))
    assert kill_count > 0  # otherwise no kill found a host


def find_processes(data: Path) -> list[psutil.Process]:
    """Return the live processes that have the folder in their command, environment or mounts."""
    processes = []
    for process in psutil.process_iter():
        try:
            text = f"{process.cmdline()} {process.environ()} {Path(f'/proc/{process.pid}/mountinfo').read_text()}"
            if f"{data}/" in text and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (psutil.Error, OSError):
            continue
    return processes


def test_no_command_line_has_a_secret(containers: ContainerExecutor, tmp_path: Path) -> None:
    counts: collections.Counter[bool] = collections.Counter()
    is_done = threading.Event()

    def watch() -> None:
        while not is_done.is_set():
            for process in psutil.process_iter():
                try:
                    line = " ".join(process.cmdline())
                except psutil.Error:
                    continue
                if "--env-file" in line:
                    counts[SECRET in line] += 1

    watcher = threading.Thread(target=watch)
    watcher.start()
    env = {"KEY": SECRET, "PEM": f"-----\n{SECRET}\n-----"}
    job = make_plan(tmp_path / "tree", containers, "import os; print(os.environ['KEY'], os.environ['PEM'])", env=env)
    try:
        assert wait_for_exit(containers.start(job)) == 0
    finally:
        is_done.set()
        watcher.join()
    assert job.log.read_text().count(SECRET) == 2
    assert counts[False] and not counts[True]


def test_container_runs_the_entrypoint_of_its_image(containers: ContainerExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", containers, "", command=[], arguments=["train"])
    assert wait_for_exit(containers.start(job)) == 0
    assert job.log.read_text() == "the image's own train\n"


def test_lack_of_memory_is_reported(containers: ContainerExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", containers, FILL_MEMORY, memory_mib=64)
    assert wait_for_exit(containers.start(job)) == 137
    assert "out of memory: the instance has 64 MiB" in job.log.read_text()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": "no-such/image:1"}, "ClientError: the container engine has no image no-such/image:1. Pull"),
        ({"image": "No Image"}, "ClientError: the container engine has no image No Image"),
        ({"image": ""}, "ClientError: the container engine has no image for a request"),
        ({"root": "gone"}, "InternalServerError: docker create: .*bind source path does not exist"),
        ({"process_file": "no/folder"}, "InternalServerError: cannot start a container: .*No such file"),
    ],
)
def test_failed_start_leaves_no_container(
    containers: ContainerExecutor, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    paths = {name: tmp_path / change.pop(name) for name in ("root", "process_file") if name in change}
    cwd = {"cwd": paths["root"] / "code"} if "root" in paths else {}
    with pytest.raises(RunFailed, match=reason):
        containers.start(
            dataclasses.replace(make_plan(tmp_path / "tree", containers, "print()"), **change, **paths, **cwd)
        )
    assert containers.kill_all_hosts(tmp_path) == 0


def test_command_that_the_image_lacks_is_reported(containers: ContainerExecutor, tmp_path: Path) -> None:
    job = make_plan(tmp_path / "tree", containers, "", command=["no-such-command"])
    assert wait_for_exit(containers.start(job)) == 127
    assert "no-such-command" in job.log.read_text()


def test_image_is_built_once_for_concurrent_hosts(image: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG BASE=scratch\nFROM $BASE\nCOPY mark /mark\nENTRYPOINT []\n")
    (folder / "mark").write_text(f"built for {tmp_path}")
    caplog.set_level("INFO", "drydock.execution.image")
    images = Images(folder / "Dockerfile", {"BASE": image})
    tags: list[str] = []
    threads = [threading.Thread(target=lambda: tags.append(images.find_image("no-such/image:1"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len(set(tags)) == 1 and len(tags) == 3
        assert sum("drydock-training:" in line and " from " in line for line in caplog.messages) == 1
        assert images.find_image(image) == image  # an image of the engine is not built
        executor = ContainerExecutor(images)
        job = make_plan(tmp_path / "tree", executor, "print(open('/mark').read())", image="")
        assert wait_for_exit(executor.start(job)) == 0
        assert job.log.read_text() == f"built for {tmp_path}\n"
        (folder / "mark").write_text("another")
        tags.append(images.find_image(""))
        assert tags[-1] != tags[0]
    finally:
        for tag in set(tags):
            run_docker("image", "rm", "--force", tag)


def test_failed_build_is_reported(image: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\nRUN exit 3\n")
    with pytest.raises(RunFailed, match=r"ClientError: cannot build an image from .*Dockerfile: .*3"):
        Images(tmp_path / "Dockerfile").find_image("no-such/image:1")
