"""The server's side of the launcher: start a paused process, then release it, and read whether its command runs."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from drydock.errors import RunFailed
from drydock.execution import launcher
from drydock.execution.host_processes import TREE_VARIABLE
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE

# Seconds within which a released process must say whether its command runs.
RELEASE_TIMEOUT_S = 60.0
# A command that succeeds only if it sees the /opt/ml and the /etc/hosts of its own host.
PROBE = ("/bin/sh", "-c", "test -f /opt/ml/probe && grep -q drydock-probe /etc/hosts")


def start_paused_process(plan: HostPlan, *, has_opt_ml: bool) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process that waits for `release_process` before it executes the plan's command.

    The process has a session of its own. If this server dies before the release, the process ends.

    Args:
        plan: What to run.
        has_opt_ml: Whether the process sees its tree at /opt/ml.

    Returns:
        The process, and the socket to release it with.

    Raises:
        RunFailed: The process cannot be started.
    """
    server_socket, child_socket = socket.socketpair()
    server_socket.settimeout(RELEASE_TIMEOUT_S)
    try:
        with child_socket, plan.log.open("ab") as output:
            process = subprocess.Popen(
                _build_launch_command(plan, child_socket.fileno(), has_opt_ml=has_opt_ml),
                env={**plan.env, TREE_VARIABLE: str(plan.root.resolve())},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[child_socket.fileno()],
                start_new_session=True,
            )
            _set_session_priority(process.pid, plan.niceness)
    except (OSError, ValueError) as error:
        server_socket.close()
        raise RunFailed(f"AlgorithmError: cannot execute {plan.command[0]!r}: {error}") from error
    return process, server_socket


def _set_session_priority(pid: int, niceness: int) -> None:
    """Set the priority of a process's session, unless niceness is 0.

    At the usual priority, the start of Python alone would delay other sessions.
    """
    # Not every system or container has this file, and Linux may refuse more than ten writes a second.
    with contextlib.suppress(OSError):
        if niceness:
            Path(f"/proc/{pid}/autogroup").write_text(str(niceness), encoding="ascii")


def release_process(release_socket: socket.socket) -> str:
    """Let a paused process execute its command. Return why it cannot execute it; "" if it can.

    Raises:
        TimeoutError: The process does not answer within a minute. A retry can help.
    """
    reason = b""
    with contextlib.suppress(ConnectionError):  # the process may have ended already; its reason can still be read
        release_socket.sendall(b"!")
    with contextlib.suppress(ConnectionError):
        while part := release_socket.recv(4096):
            reason += part
    return reason.decode(errors="replace")


def format_hosts(addresses: Mapping[str, str]) -> str:
    """Return the lines of /etc/hosts for the addresses of a job's hosts, given by host name."""
    return "".join(f"{address}\t{host}\n" for host, address in addresses.items())


def find_opt_ml_problem() -> str:
    """Return why this kernel does not let this user's processes have their own /opt/ml; "" if it does."""
    with tempfile.TemporaryDirectory(prefix="drydock-probe-") as folder:
        root = Path(folder) / "tree"
        root.mkdir()
        (root / "probe").touch()
        plan = HostPlan(
            name="probe",
            host="drydock-probe",
            addresses={"drydock-probe": "127.0.0.1"},
            root=root,
            command=PROBE,
            env={"PATH": os.defpath},
            cwd=root,
            log=root / "log",
            process_file=root / "process.json",
            image="",
            cores=1,
            memory_mib=1,
        )
        return _run_probe(plan)


def _run_probe(plan: HostPlan) -> str:
    try:
        process, release_socket = start_paused_process(plan, has_opt_ml=True)
        with release_socket:
            reason = release_process(release_socket)
        exit_code = process.wait(RELEASE_TIMEOUT_S)
    except (RunFailed, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if reason or exit_code == 0:
        return reason.removeprefix("InternalServerError: ")
    return f"the process does not see its own /opt/ml: {plan.log.read_text(errors='replace').strip()}"


def _build_launch_command(plan: HostPlan, socket_fd: int, *, has_opt_ml: bool) -> Sequence[str]:
    root = plan.root.resolve()
    cwd = CONTAINER_BASE / plan.cwd.resolve().relative_to(root) if has_opt_ml else plan.cwd
    hosts, locale = format_hosts(plan.addresses), plan.env.get("LC_CTYPE", "")
    launcher_arguments = [str(root) if has_opt_ml else "", str(cwd), plan.host, hosts, locale]
    launcher_arguments.append(str(plan.exit_file.resolve()))
    # -I -S: the launcher ignores the job's PYTHON* variables, and does not load site-packages, which takes 3 ms.
    return [sys.executable, "-I", "-S", launcher.__file__, str(socket_fd), *launcher_arguments, *plan.command]
