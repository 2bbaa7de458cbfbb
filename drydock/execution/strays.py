"""Which processes are a job's, and their end: also of those that left its process group."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from drydock.execution.launcher import MARK

TREE_VARIABLE = "DRYDOCK_TREE"
"""In the environment of every process of a job: the job's tree, resolved."""
GONE_WITHIN_S = 5.0


def kill_tree(root: Path, group: int | None = None) -> int:
    """No process of the tree at root is alive. Returns how many were killed.

    Idempotent: where none is left it only looks.

    Args:
        root: The tree.
        group: The tree's process group, where there is one: all its processes are the tree's too.
    """
    own = root.resolve()
    return kill_all(lambda process: os.getpgid(process.pid) == group or own in trees(process))


def kill_strays(data: Path) -> int:
    """No process of any tree below data is alive. Returns how many were killed.

    Idempotent: where none is left it only looks.
    """
    own = data.resolve()
    return kill_all(lambda process: any(tree.is_relative_to(own) for tree in trees(process)))


def trees(process: psutil.Process) -> set[Path]:
    """Return the tree that the process belongs to; empty for one that is no job's.

    The mark in its view of /opt is the better witness, since a daemon may have cleaned its environment. A process that
    started without such a view has its environment only.

    Raises:
        psutil.Error: It is gone, or another user's.
    """
    found = {process.environ().get(TREE_VARIABLE, "")}
    with contextlib.suppress(OSError):
        found.add(str(Path(f"/proc/{process.pid}/root{MARK}").readlink()))
    return {Path(tree) for tree in found if tree}


def kill_all(chosen: Callable[[psutil.Process], bool]) -> int:
    """No chosen process of this user is alive, or five seconds have passed: one is stuck in the kernel.

    Args:
        chosen: Asked for every process of the machine; may raise psutil.Error for no.

    Returns:
        How many were killed.
    """
    killed: set[psutil.Process] = set()
    deadline = time.monotonic() + GONE_WITHIN_S
    # Again until none is found: what was not looked at yet may have been started by what is dead now.
    while found := [process for process in map(_process, psutil.pids()) if process and _is_ours(process, chosen)]:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()  # by number and time of birth: never the next process with the number
        killed.update(found)
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return len(killed)


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _is_ours(process: psutil.Process, chosen: Callable[[psutil.Process], bool]) -> bool:
    try:
        return (
            chosen(process)
            and process.uids().real == os.getuid()
            and process.status() != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
        )
    except (psutil.Error, OSError):
        return False
