"""Send signals to the process groups that tests start, and to no other group."""

import contextlib
import os
import signal
import subprocess
from typing import Any

import psutil


def signal_group(child: "subprocess.Popen[Any]", signal_number: int = signal.SIGKILL) -> None:
    """Send a signal to the remaining processes of the group whose leader is `child`.

    The kernel reuses the child's process id only after the child is reaped and its group has no members. Then the id
    may belong to a server of another worker. So if the child is reaped and a process has its id, the group is gone, and
    nothing is sent.
    """
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal_number)


def end_group(child: "subprocess.Popen[Any]") -> None:
    """Kill the group, and reap the child."""
    signal_group(child)
    child.wait()
