"""Find and stop the processes of one stack, and no others.

A process belongs to the stack if its environment has LEEWAY_STACK_ID, and LEEWAY_HOME is the stack's. drydock gives
each training job a new environment: a job belongs to the stack if its DRYDOCK_TREE, the job's folder, lies in the
stack's drydock folder. The descendants of these processes belong to the stack, too. Process groups are not enough:
Airflow's tasks and steps leave the group, and survive a kill -9 of their parents.

While drydock runs, only drydock stops its jobs, and records that spot jobs were interrupted. If a job got a signal from
another process, drydock would record a failure of the job's script.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from stack.errors import UnavailableError

SERVICE_VARIABLE = "LEEWAY_STACK_SERVICE"
"""The variable that names the service to which a process belongs. Children of the service inherit it."""
GRACE_S = 8.0
"""Seconds between SIGTERM and SIGKILL."""
DRYDOCK_GRACE_S = 20.0
"""Seconds between SIGTERM and SIGKILL of drydock, which waits for its jobs and uploads their last checkpoints."""
KILL_TIMEOUT_S = 30.0
"""Maximum time in seconds between SIGKILL and the end of a process."""
_POLL_S = 0.1


def find_processes(home: Path, excluded_pids: Iterable[int] = (), service: str = "") -> list[psutil.Process]:
    """Return the living processes of the stack, without this process, its ancestors, and `excluded_pids`.

    With `service`, only the processes of that service are returned.
    """
    all_excluded_pids = {os.getpid(), *excluded_pids, *(parent.pid for parent in psutil.Process().parents())}
    living_processes = [process for process in psutil.process_iter() if _is_living(process)]
    pids = {process.pid for process in living_processes if _has_stack_environment(process, home, service)}
    parent_pids = {process.pid: _read_parent_pid(process) for process in living_processes}
    for pid in parent_pids:
        if any(ancestor in pids for ancestor in _list_ancestor_pids(pid, parent_pids)):
            pids.add(pid)
    return [process for process in living_processes if process.pid in pids - all_excluded_pids]


def stop_processes(home: Path, excluded_pids: Iterable[int] = (), grace_s: float = GRACE_S, service: str = "") -> int:
    """Stop the processes of the stack: send SIGTERM, wait `grace_s` seconds, send SIGKILL. Idempotent.

    With `service`, only the processes of that service are stopped. With `grace_s` 0, only drydock
    gets SIGTERM: it always has at least DRYDOCK_GRACE_S seconds, and stops its jobs itself.

    Returns:
        the number of processes that were stopped; 0 if none ran.

    Raises:
        UnavailableError: a process did not end after SIGKILL, for example because a disk hangs. A retry can help.
    """
    excluded_pids = tuple(excluded_pids)
    stopped_processes: set[psutil.Process] = set()
    signalled_processes: set[psutil.Process] = set()
    started_at, drydock_grace_s = time.monotonic(), max(grace_s, DRYDOCK_GRACE_S)
    # Processes are searched for again each time, because a parent that ends may have started another one.
    while remaining_processes := find_processes(home, excluded_pids, service):
        waited_s = time.monotonic() - started_at
        drydock_processes = {process for process in remaining_processes if _is_drydock(process)}
        if waited_s > (drydock_grace_s if drydock_processes else grace_s) + KILL_TIMEOUT_S:
            pids = [process.pid for process in remaining_processes]
            raise UnavailableError(f"Processes {pids} did not end after SIGKILL; try again.")
        # Parents before their children: a parent that still runs would record the end of a child as a failure.
        for process in sorted(_exclude_jobs(remaining_processes, drydock_processes), key=psutil.Process.create_time):
            if waited_s >= (drydock_grace_s if process in drydock_processes else grace_s):
                _send_signal(process, kill=True)
            elif process not in signalled_processes:
                _send_signal(process, kill=False)
                signalled_processes.add(process)
        stopped_processes.update(remaining_processes)
        time.sleep(_POLL_S)
    return len(stopped_processes)


def find_unserved_ports(home: Path, ports: Iterable[int]) -> list[int]:
    """Return the ports on which no process of the stack listens, sorted."""
    # The sockets are read process by process. psutil's list of all sockets names only one process for each socket, and
    # the one that it names may be a worker that has ended.
    served_ports: set[int] = set()
    for process in find_processes(home):
        with suppress(psutil.Error):
            sockets = process.net_connections("tcp4")
            served_ports |= {item.laddr.port for item in sockets if item.laddr and item.status == psutil.CONN_LISTEN}
    return sorted(set(ports) - served_ports)


def _send_signal(process: psutil.Process, *, kill: bool) -> None:
    # psutil compares the creation time first, so it never signals a later process with the same pid.
    with suppress(psutil.Error):
        process.kill() if kill else process.terminate()


def _exclude_jobs(processes: list[psutil.Process], drydock_processes: set[psutil.Process]) -> list[psutil.Process]:
    """Return the processes without the jobs of a running drydock. If no drydock runs, return all processes."""
    drydock_pids = {process.pid for process in drydock_processes}
    if not drydock_pids:
        return processes
    parent_pids = {process.pid: _read_parent_pid(process) for process in processes}
    return [
        process
        for process in processes
        if drydock_pids.isdisjoint(_list_ancestor_pids(process.pid, parent_pids)) and not _read_job_folder(process)
    ]


def _is_drydock(process: psutil.Process) -> bool:
    try:
        return "drydock" in process.cmdline() and not _read_job_folder(process)
    except psutil.Error:
        return False


def _read_job_folder(process: psutil.Process) -> str:
    """Return the folder of the job that a process belongs to; empty for any other process."""
    try:
        return str(process.environ().get("DRYDOCK_TREE", ""))
    except (psutil.Error, OSError):
        return ""


def _is_living(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _read_parent_pid(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


def _list_ancestor_pids(pid: int, parent_pids: dict[int, int]) -> list[int]:
    ancestors: list[int] = []
    while (pid := parent_pids.get(pid, 0)) and pid not in ancestors:
        ancestors.append(pid)
    return ancestors


def _has_stack_environment(process: psutil.Process, home: Path, service: str) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    if environment.get("LEEWAY_STACK_ID") and environment.get("LEEWAY_HOME") == str(home):
        return not service or environment.get(SERVICE_VARIABLE) == service
    if service:
        return False  # if only drydock is stopped, its jobs continue: the next drydock takes them over
    tree = environment.get("DRYDOCK_TREE", "")
    return bool(tree) and Path(tree).is_relative_to(home / "drydock") and not _has_drydock_ancestor(process)


def _has_drydock_ancestor(job: psutil.Process) -> bool:
    """Return whether the drydock that started the job still runs.

    If that drydock belongs to the stack, `find_processes` finds the job as its descendant.
    """
    try:
        return any("drydock" in parent.cmdline() for parent in job.parents())
    except psutil.Error:
        return False
