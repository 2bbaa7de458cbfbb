"""Test the isolation of a host: which folders and names it sees, and what the machine sees of it."""

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
SERVER_CODE = """
import socket
listener = socket.create_server(("algo-1", 29500))
open("/opt/ml/ready", "w")
connection, (address, _) = listener.accept()
print(connection.recv(100).decode(), address)
"""
CLIENT_CODE = """
import pathlib, socket
own = socket.create_server((socket.gethostname(), 29500))  # the same port, at this host's own address
connection = socket.create_connection(("algo-1", 29500), source_address=("algo-2", 0))
connection.sendall(b"hello from " + socket.gethostname().encode())
"""
# Runs a host, and prints whether the executor mounts /opt/ml, the host's exit code, its folder and its log.
REPORT_CODE = """
import sys, time
from pathlib import Path
from drydock.host.executor import HostPlan
from drydock.execution.process import ProcessExecutor
root, executor = Path(sys.argv[1]), ProcessExecutor()
log = root.with_name("log")
command = ["sh", "-c", "pwd; getent hosts algo-1; id -u"]
plan = HostPlan("job", "algo-1", {"algo-1": "127.9.8.1"}, root, command, {"PATH": "/usr/bin:/bin"}, root, log,
                root.with_name("process_file"), "", 1, 512)
host = executor.start(plan)
while not host.has_exited():
    time.sleep(0.01)
path = executor.get_path_in_job(root)
print(executor.has_opt_ml, executor.opt_ml_problem, host.finish(), path, log.read_text(), sep="|")
"""


@pytest.fixture
def executor() -> ProcessExecutor:
    """Return an executor that mounts /opt/ml."""
    executor = ProcessExecutor()
    if not executor.has_opt_ml:
        pytest.skip(f"/opt/ml cannot be mounted: {executor.opt_ml_problem}")
    return executor


def make_plan(root: Path, *command: str, host: str = "algo-1") -> HostPlan:
    """Return the plan of a host that runs a command."""
    (root / "code").mkdir(parents=True, exist_ok=True)
    log, process_file = root.with_name(f"{root.name}.log"), root.with_name(f"{root.name}.json")
    env = {"PATH": os.defpath}
    return HostPlan("job", host, ADDRESSES, root, command, env, root / "code", log, process_file, "", 1, 512)


def run(executor: ProcessExecutor, *plans: HostPlan) -> list[str]:
    """Run hosts until all have ended, and return their logs. Each host starts when the one before it is ready."""
    hosts = []
    deadline = time.monotonic() + 60
    for plan in plans:
        hosts.append(executor.start(plan))
        while plan is not plans[-1] and not (plan.root / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
    while not all(host.has_exited() for host in hosts) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [host.finish() for host in hosts] == [0] * len(plans), [plan.log.read_text() for plan in plans]
    return [plan.log.read_text() for plan in plans]


def test_host_sees_its_folder_and_the_rest_of_opt(executor: ProcessExecutor, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    plan = make_plan(root, "sh", "-c", "pwd; echo text > /opt/ml/model; ls -A /opt")
    words = run(executor, plan)[0].split()
    assert words[0] == "/opt/ml/code" and executor.get_path_in_job(root) == "/opt/ml"
    assert (root / "model").read_text() == "text\n"
    assert set(words[1:]) - {"ml", ".drydock-tree"} == set(os.listdir("/opt")) - {"ml", ".drydock-tree"}


def test_machine_does_not_see_the_mounts_of_a_host(executor: ProcessExecutor, tmp_path: Path, run_folder: Path) -> None:
    def describe_machine() -> tuple[object, ...]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        # Mounts by tests of other workers do not count.
        mounts = [line for line in lines if str(run_folder) not in line or str(tmp_path) in line]
        return mounts, os.listdir("/opt"), Path("/etc/hosts").read_bytes(), os.uname().nodename

    before, plan = describe_machine(), make_plan(tmp_path / "tree", "sleep", "600")
    host = executor.start(plan)
    host_mounts = Path(f"/proc/{host.pid}/mountinfo").read_text()
    assert " /opt/ml " in host_mounts and " /etc/hosts " in host_mounts  # the host runs
    assert describe_machine() == before
    host.finish()
    assert describe_machine() == before


def test_folder_of_a_host_may_be_below_opt(executor: ProcessExecutor, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root writes to /opt")
    folder, link = Path("/opt") / f"drydock-test-{os.getpid()}", Path("/opt") / f"drydock-link-{os.getpid()}"
    try:
        link.symlink_to(folder)
        root = folder / "tree"
        assert run(executor, make_plan(root, "sh", "-c", f"readlink {link}; touch {root}/one /opt/ml/two")) == [
            f"{folder}\n"
        ]
        assert {"one", "two"} <= set(os.listdir(root))
    finally:
        link.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_hosts_reach_each_other_by_name_on_the_same_port(executor: ProcessExecutor, tmp_path: Path) -> None:
    python = [sys.executable, "-c"]
    first = make_plan(tmp_path / "1", *python, SERVER_CODE)
    second = make_plan(tmp_path / "2", *python, CLIENT_CODE, host="algo-2")
    assert run(executor, first, second) == ["hello from algo-2 127.9.8.2\n", ""]


def test_without_opt_ml_there_are_no_host_names(tmp_path: Path) -> None:
    executor = ProcessExecutor(opt_ml=False)
    root = tmp_path / "tree"
    assert (
        not executor.has_opt_ml
        and executor.opt_ml_problem == "switched off"
        and executor.get_path_in_job(root) == str(root)
    )
    assert run(executor, make_plan(root, "sh", "-c", "pwd; getent hosts algo-2; test $? = 2")) == [f"{root}/code\n"]


def run_report(*prefix: str, root: Path) -> list[str]:
    """Run REPORT_CODE in a new process, started by the command `prefix`, and return the fields that it prints."""
    root.mkdir()
    command = [*prefix, sys.executable, "-c", REPORT_CODE, str(root)]
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=180)
    if result.returncode != 0 and prefix and not shutil.which(prefix[0]):
        pytest.skip(f"{prefix[0]} is missing: apt-get install util-linux")
    return result.stdout.strip().split("|") or [result.stderr]


def test_user_other_than_root_gets_a_user_namespace(executor: ProcessExecutor, tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("the other tests run as such a user already")
    fields = run_report("setpriv", "--bounding-set=-sys_admin", root=tmp_path / "tree")
    assert fields == ["True", "", "0", "/opt/ml", "/opt/ml\n127.9.8.1       algo-1\n0"]


def test_starts_without_opt_ml_if_the_kernel_forbids_it(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can forbid user namespaces")
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin "$@"'
    root = tmp_path / "tree"
    fields = run_report("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh", root=root)
    assert fields[0] == "False" and fields[1].startswith("cannot prepare /opt/ml: ") and "unshare" in fields[1]
    assert fields[2:4] == ["0", str(root)] and fields[4].split() == [str(root), "0"]
