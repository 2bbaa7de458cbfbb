"""Find and kill the processes of a job, including those that have left the job's process group.

A tree is the folder of one host of a job (`HostTree`). A process belongs to the host whose tree is in the process's
environment or mount namespace: see `read_host_trees`.
"""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from drydock.execution.launcher import TREE_LINK

TREE_VARIABLE = "DRYDOCK_TREE"
"""Environment variable that the processes of a host inherit: the resolved path of the host's tree."""
# Seconds after which a process that does not end is left alone, and seconds between two checks.
KILL_TIMEOUT_S = 5.0
POLL_S = 0.01


def kill_host_processes(root: Path, group: int | None = None) -> int:
    """Kill every process of the host that a tree belongs to. Return how many were killed. Idempotent.

    Args:
        root: The tree.
        group: Process group of the host; all its processes are killed too. None if the group has ended.
    """
    resolved_root = root.resolve()
    return kill_matching_processes(
        lambda process: os.getpgid(process.pid) == group or resolved_root in read_host_trees(process)
    )


def kill_processes_of_all_hosts(data_folder: Path) -> int:
    """Kill every process of the hosts whose trees are in a server's data folder. Return how many were killed.

    Idempotent.
    """
    resolved_folder = data_folder.resolve()
    return kill_matching_processes(
        lambda process: any(tree.is_relative_to(resolved_folder) for tree in read_host_trees(process))
    )


def read_host_trees(process: psutil.Process) -> set[Path]:
    """Return the trees of the hosts that a process belongs to; an empty set if it belongs to none.

    A tree is read from the process's environment, and from the link that the launcher creates in /opt of the process's
    mount namespace. Usually both name the same tree. But a daemon may have cleared its environment, and a process may
    have no mount namespace of its own.

    Raises:
        psutil.Error: The process has ended, or belongs to another user.
    """
    trees = {process.environ().get(TREE_VARIABLE, "")}
    with contextlib.suppress(OSError):
        trees.add(str(Path(f"/proc/{process.pid}/root{TREE_LINK}").readlink()))
    return {Path(tree) for tree in trees if tree}


def kill_matching_processes(matches: Callable[[psutil.Process], bool]) -> int:
    """Kill every matching process of this user, except this process itself.

    Give up after five seconds: a process may be stuck in the kernel.

    Args:
        matches: Returns whether to kill a process. It is called for every process of the machine. If it raises
            psutil.Error or OSError, the process is not killed.

    Returns:
        The number of killed processes.
    """
    killed_processes: set[psutil.Process] = set()
    deadline = time.monotonic() + KILL_TIMEOUT_S
    # This is repeated until no process matches: a killed process may have started another one just before its end.
    while processes := [
        process for process in map(_get_process, psutil.pids()) if process and _is_match(process, matches)
    ]:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()  # psutil compares the start time, so it never kills a later process with the same id
        killed_processes.update(processes)
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    # A dying process has no environment, so it no longer matches, but it may still have files open.
    while any(map(_is_running, killed_processes)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return len(killed_processes)


def _get_process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _is_match(process: psutil.Process, matches: Callable[[psutil.Process], bool]) -> bool:
    try:
        return (
            matches(process)
            and process.uids().real == os.getuid()
            and _is_running(process)
            and process.pid != os.getpid()
        )
    except (psutil.Error, OSError):
        return False
