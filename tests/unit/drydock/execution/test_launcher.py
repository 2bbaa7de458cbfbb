"""What a host sees of the machine, and the machine of it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drydock.execution.process import ProcessExecutor
from drydock.host.executor import HostPlan

REPOSITORY = Path(__file__).parents[4]
ADDRESSES = {"algo-1": "127.9.8.1", "algo-2": "127.9.8.2"}
SERVE = """
import socket
listener = socket.create_server(("algo-1", 29500))
open("/opt/ml/ready", "w")
connection, (address, _) = listener.accept()
print(connection.recv(100).decode(), address)
"""
CONNECT = """
import pathlib, socket
own = socket.create_server((socket.gethostname(), 29500))  # the same port, at the own address
connection = socket.create_connection(("algo-1", 29500), source_address=("algo-2", 0))
connection.sendall(b"hello from " + socket.gethostname().encode())
"""
# Says whether the executor gives a view of its own, and what a host finds.
REPORT = """
import sys, time
from pathlib import Path
from drydock.host.executor import HostPlan
from drydock.execution.process import ProcessExecutor
root, executor = Path(sys.argv[1]), ProcessExecutor()
log = root.with_name("log")
command = ["sh", "-c", "pwd; getent hosts algo-1; id -u"]
plan = HostPlan("job", "algo-1", {"algo-1": "127.9.8.1"}, root, command, {"PATH": "/usr/bin:/bin"}, root, log,
                root.with_name("process_file"), "", 1, 512)
group = executor.start(plan)
while not group.has_exited():
    time.sleep(0.01)
path = executor.get_path_in_job(root)
print(executor.has_opt_ml, executor.opt_ml_problem, group.finish(), path, log.read_text(), sep="|")
"""


@pytest.fixture
def executor() -> ProcessExecutor:
    found = ProcessExecutor()
    if not found.has_opt_ml:
        pytest.skip(f"no view of its own here: {found.opt_ml_problem}")
    return found


def plan(root: Path, *command: str, host: str = "algo-1") -> HostPlan:
    (root / "code").mkdir(parents=True, exist_ok=True)
    log, process_file = root.with_name(f"{root.name}.log"), root.with_name(f"{root.name}.json")
    env = {"PATH": os.defpath}
    return HostPlan("job", host, ADDRESSES, root, command, env, root / "code", log, process_file, "", 1, 512)


def run(executor: ProcessExecutor, *plans: HostPlan) -> list[str]:
    """Return what each host said; they run at once, each starting when the one before is ready."""
    groups = []
    deadline = time.monotonic() + 60
    for one in plans:
        groups.append(executor.start(one))
        while one is not plans[-1] and not (one.root / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
    while not all(group.has_exited() for group in groups) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [group.finish() for group in groups] == [0] * len(plans), [one.log.read_text() for one in plans]
    return [one.log.read_text() for one in plans]


def test_a_host_sees_its_tree_and_the_rest_of_opt(executor: ProcessExecutor, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    one = plan(root, "sh", "-c", "pwd; echo kept > /opt/ml/model; ls -A /opt")
    said = run(executor, one)[0].split()
    assert said[0] == "/opt/ml/code" and executor.get_path_in_job(root) == "/opt/ml"
    assert (root / "model").read_text() == "kept\n"
    assert set(said[1:]) - {"ml", ".drydock-tree"} == set(os.listdir("/opt")) - {"ml", ".drydock-tree"}


def test_the_machine_does_not_see_a_hosts_opt(executor: ProcessExecutor, tmp_path: Path, run_folder: Path) -> None:
    def machine() -> tuple[object, ...]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        # Not what another worker's test mounts in its own folder meanwhile.
        mounts = [line for line in lines if str(run_folder) not in line or str(tmp_path) in line]
        return mounts, os.listdir("/opt"), Path("/etc/hosts").read_bytes(), os.uname().nodename

    before, one = machine(), plan(tmp_path / "tree", "sleep", "600")
    group = executor.start(one)
    inside = Path(f"/proc/{group.pid}/mountinfo").read_text()
    assert " /opt/ml " in inside and " /etc/hosts " in inside  # while it runs,
    assert machine() == before  # nothing of it is the machine's
    group.finish()
    assert machine() == before


def test_a_tree_may_be_below_opt(executor: ProcessExecutor, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root writes to /opt")
    folder, link = Path("/opt") / f"drydock-test-{os.getpid()}", Path("/opt") / f"drydock-link-{os.getpid()}"
    try:
        link.symlink_to(folder)
        root = folder / "tree"
        assert run(executor, plan(root, "sh", "-c", f"readlink {link}; touch {root}/one /opt/ml/two")) == [
            f"{folder}\n"
        ]
        assert {"one", "two"} <= set(os.listdir(root))
    finally:
        link.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_hosts_reach_each_other_by_name_on_the_same_port(executor: ProcessExecutor, tmp_path: Path) -> None:
    python = [sys.executable, "-c"]
    first = plan(tmp_path / "1", *python, SERVE)
    second = plan(tmp_path / "2", *python, CONNECT, host="algo-2")
    assert run(executor, first, second) == ["hello from algo-2 127.9.8.2\n", ""]


def test_without_opt_ml_there_are_no_host_names(tmp_path: Path) -> None:
    executor = ProcessExecutor(opt_ml=False)
    root = tmp_path / "tree"
    assert (
        not executor.has_opt_ml
        and executor.opt_ml_problem == "switched off"
        and executor.get_path_in_job(root) == str(root)
    )
    assert run(executor, plan(root, "sh", "-c", "pwd; getent hosts algo-2; test $? = 2")) == [f"{root}/code\n"]


def report(*prefix: str, root: Path) -> list[str]:
    root.mkdir()
    command = [*prefix, sys.executable, "-c", REPORT, str(root)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    if done.returncode != 0 and prefix and not shutil.which(prefix[0]):
        pytest.skip(f"no {prefix[0]} here")
    return done.stdout.strip().split("|") or [done.stderr]


def test_a_user_other_than_root_gets_a_user_namespace(executor: ProcessExecutor, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("whoever runs this is such a one: the other tests show it")
    found = report("setpriv", "--bounding-set=-sys_admin", root=tmp_path / "tree")
    assert found == ["True", "", "0", "/opt/ml", "/opt/ml\n127.9.8.1       algo-1\n0"]


def test_starts_without_opt_ml_if_the_kernel_forbids_it(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can forbid it")
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin "$@"'
    root = tmp_path / "tree"
    found = report("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh", root=root)
    assert found[0] == "False" and found[1].startswith("cannot prepare /opt/ml: ") and "unshare" in found[1]
    assert found[2:4] == ["0", str(root)] and found[4].split() == [str(root), "0"]
