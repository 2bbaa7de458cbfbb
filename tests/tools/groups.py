"""Signals to the process groups that tests start, and to no other group."""

import contextlib
import os
import signal
import subprocess
from typing import Any

import psutil


def signal_group(child: "subprocess.Popen[Any]", number: int = signal.SIGKILL) -> None:
    """What is left of the group that `child` led has been sent the signal.

    Until the child is reaped its number is its own. Then the kernel may give it away, in a long run to a server of
    another worker, but not while the group lives: where a process has the number, the group is gone.
    """
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def end_group(child: "subprocess.Popen[Any]") -> None:
    """Nothing of the group lives, and the child is reaped."""
    signal_group(child)
    child.wait()
