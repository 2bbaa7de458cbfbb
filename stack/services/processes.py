"""Finding and ending what the stack started, and nothing else.

A process is ours when it carries our marks in its environment: LEEWAY_STACK_ID together with our
LEEWAY_HOME, or, for a training job, whose environment drydock rebuilds, a DRYDOCK_TREE inside our
drydock's folder. Descendants of ours are ours. Process groups alone would not do: Airflow's tasks and steps
leave the group, and survive a kill -9 of their parents.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from stack.errors import UnavailableError

GRACE_S = 8.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_S = 10.0
"""Seconds that a process may take to be gone after SIGKILL."""
_POLL_S = 0.1


def find(home: Path, spare: Iterable[int] = ()) -> list[psutil.Process]:
    """Our living processes, without this one, those that started it, and those in `spare`."""
    spared = {os.getpid(), *spare, *(parent.pid for parent in psutil.Process().parents())}
    living = [process for process in psutil.process_iter() if _living(process)]
    found = {process.pid for process in living if _marked(process, home)}
    parents = {process.pid: _parent(process) for process in living}
    for pid in parents:
        chain = _ancestors(pid, parents)
        if any(one in found for one in chain):
            found.add(pid)
    return [process for process in living if process.pid in found - spared]


def stop(home: Path, spare: Iterable[int] = (), grace_s: float = GRACE_S) -> int:
    """Ends our processes: SIGTERM, `grace_s` seconds, SIGKILL. Idempotent.

    Returns:
        how many there were; 0 where nothing ran.

    Raises:
        UnavailableError: one is still there, though killed (a hanging disk can hold it).
    """
    spare = tuple(spare)
    asked: set[psutil.Process] = set()
    grace_ends = time.monotonic() + grace_s
    # Looked for again each time: a dying parent may have started one more.
    while left := find(home, spare):
        now = time.monotonic()
        if now > grace_ends + KILL_S:
            raise UnavailableError(f"Processes {[one.pid for one in left]} do not end, though killed; try again.")
        for process in left:
            if now > grace_ends:
                _signal(process, kill=True)
            elif process not in asked:
                _signal(process, kill=False)
        asked.update(left)
        time.sleep(_POLL_S)
    return len(asked)


def unserved(home: Path, ports: Iterable[int]) -> list[int]:
    """Those of the ports on which none of our processes listens."""
    # By process: asked for all sockets, psutil names one holder of each, which may be a worker that is gone by now.
    ours: set[int] = set()
    for process in find(home):
        with suppress(psutil.Error):
            found = process.net_connections("tcp4")
            ours |= {one.laddr.port for one in found if one.laddr and one.status == psutil.CONN_LISTEN}
    return sorted(set(ports) - ours)


def _signal(process: psutil.Process, *, kill: bool) -> None:
    # psutil compares the time of birth first, so that a reused number is never hit.
    with suppress(psutil.Error):
        process.kill() if kill else process.terminate()


def _living(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    chain: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in chain:
        chain.append(pid)
    return chain


def _marked(process: psutil.Process, home: Path) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    if environment.get("LEEWAY_STACK_ID") and environment.get("LEEWAY_HOME") == str(home):
        return True
    tree = environment.get("DRYDOCK_TREE", "")
    return bool(tree) and Path(tree).is_relative_to(home / "drydock") and not _served_elsewhere(process)


def _served_elsewhere(job: psutil.Process) -> bool:
    """Whether a living drydock holds the job: not ours, since ours is marked, so its jobs are descendants."""
    try:
        return any("drydock" in parent.cmdline() for parent in job.parents())
    except psutil.Error:
        return False
