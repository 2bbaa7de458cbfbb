"""The server's side of the launcher: a process is prepared, then released, and says whether its command runs."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from drydock.errors import JobFailed
from drydock.execution import launcher
from drydock.execution.strays import TREE_VARIABLE
from drydock.host.executor import HostPlan
from drydock.host.tree import CONTAINER_BASE

RELEASED_WITHIN_S = 60.0
# True only inside a host's view of the machine.
PROBE = ("/bin/sh", "-c", "test -f /opt/ml/probe && grep -q drydock-probe /etc/hosts")


def prepare(plan: HostPlan, *, opt_ml: bool) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A process of its own session waits for `release` before it becomes the plan's command.

    Args:
        plan: What to run.
        opt_ml: Whether it sees its tree at /opt/ml.

    Returns:
        The process, and the socket to release it by. Where this server dies first, it ends.

    Raises:
        JobFailed: There cannot be such a process.
    """
    server, child = socket.socketpair()
    server.settimeout(RELEASED_WITHIN_S)
    try:
        with child, plan.log.open("ab") as output:
            process = subprocess.Popen(
                _launch_command(plan, child.fileno(), opt_ml=opt_ml),
                env={**plan.env, TREE_VARIABLE: str(plan.root.resolve())},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[child.fileno()],
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        server.close()
        raise JobFailed(f"AlgorithmError: cannot execute {plan.command[0]!r}: {error}") from error
    return process, server


def release(server: socket.socket) -> str:
    """The prepared process was let go; returns "" where it became its command, else why it did not.

    Raises:
        TimeoutError: It says nothing for a minute.
    """
    said = b""
    with contextlib.suppress(ConnectionError):  # it may have given up already; why is there to be read
        server.sendall(b"!")
    with contextlib.suppress(ConnectionError):
        while part := server.recv(4096):
            said += part
    return said.decode(errors="replace")


def hosts_lines(addresses: Mapping[str, str]) -> str:
    """Return the lines of /etc/hosts that name the hosts of a job."""
    return "".join(f"{address}\t{host}\n" for host, address in addresses.items())


def probe() -> str:
    """Return why this kernel does not let this user have a view of the machine of its own; "" where it does."""
    with tempfile.TemporaryDirectory(prefix="drydock-probe-") as folder:
        root = Path(folder)
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
            note=root / "note",
            image="",
            cores=1,
            memory_mb=1,
        )
        return _try(plan)


def _try(plan: HostPlan) -> str:
    try:
        process, server = prepare(plan, opt_ml=True)
        with server:
            why = release(server)
        code = process.wait(RELEASED_WITHIN_S)
    except (JobFailed, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if why or code == 0:
        return why.removeprefix("InternalServerError: ")
    return f"the view that was made is not the one that was asked for: {plan.log.read_text(errors='replace').strip()}"


def _launch_command(plan: HostPlan, channel: int, *, opt_ml: bool) -> Sequence[str]:
    root = plan.root.resolve()
    cwd = CONTAINER_BASE / plan.cwd.resolve().relative_to(root) if opt_ml else plan.cwd
    view = [str(root) if opt_ml else "", str(cwd), plan.host, hosts_lines(plan.addresses), plan.env.get("LC_CTYPE", "")]
    # -I -S: neither the job's PYTHON* nor any site-packages, which would cost 3 ms.
    return [sys.executable, "-I", "-S", launcher.__file__, str(channel), *view, *plan.command]
