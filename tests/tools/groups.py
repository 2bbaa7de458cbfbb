"""Send signals to the process groups that tests start, and to no other group."""

import contextlib
import os
import signal
import subprocess
from typing import Any

import psutil


def signal_group(child: "subprocess.Popen[Any]", number: int = signal.SIGKILL) -> None:
    """Send a signal to the processes that are left of the group that `child` led.

    The kernel does not reuse the child's number before the child is reaped, nor while its group has members. After that
    the number may belong to a server of another worker. So if the child is reaped and a process has the number, the
    group is gone, and nothing is sent.
    """
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def end_group(child: "subprocess.Popen[Any]") -> None:
    """Kill the group, and reap the child."""
    signal_group(child)
    child.wait()
