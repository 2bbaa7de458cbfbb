"""Train one booster on several hosts: each has a share of the rows, and xgboost adds up their histograms.

Each function of this module waits for all hosts. So all hosts must call the same functions in the same order. On one
host, nothing is exchanged.

The module is part of the training job's source bundle, so it imports only xgboost, numpy, the standard library and
files of the bundle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from pipelines.container.checkpoints import Checkpoint
from pipelines.container.hosts import Hosts, HostsError
from pipelines.container.signals import Stopped

JOIN_S = 60
"""Time limit for the hosts to connect to each other, once the first host has passed its address to all, seconds. It is
also the time limit to disconnect."""
TIMEOUT_S = 600
"""Longest time that a host waits for another one in a round, for example while the first one saves a checkpoint,
seconds."""
CONNECT_ATTEMPTS = 2
"""Number of attempts to connect to another host."""


@dataclass(frozen=True)
class Group:
    """The hosts of a job, the address at which they connect, and the tracker that gives each host its rank."""

    hosts: Hosts
    arguments: Mapping[str, Any]
    """Arguments of xgboost's `collective.init`."""
    tracker: RabitTracker | None
    """Server of xgboost that gives the hosts their ranks; only the first of several hosts has it."""


def find_group(hosts: Hosts, identity: str) -> Group:
    """Wait until all hosts are ready, and find out where they connect. A signal may interrupt the wait.

    Args:
        hosts: the hosts of the job.
        identity: digest of everything that must be equal on all hosts.

    Raises:
        HostsError: a host's name does not resolve, or a host does not connect or answer in time: a retry can help. Or a
            host has other inputs: a retry cannot help.
        OSError: the port of the first host is in use. A retry can help.
    """
    if hosts.count == 1:
        return Group(hosts, {}, None)
    tracker = None
    if hosts.is_first:
        # The port is chosen by the system: that of an earlier run on this machine would stay blocked for a minute.
        tracker = RabitTracker(hosts.count, hosts.find_first_address(), sortby="task", timeout=JOIN_S)
        tracker.start()
    try:
        address = hosts.share_text(json.dumps(tracker.worker_args() if tracker else {}), identity)
    except BaseException:
        _free(tracker)
        raise
    # With leading zeros, the names sort in the order of the hosts: the first host gets the rank 0.
    arguments = {"dmlc_task_id": f"{hosts.index:06d}", "dmlc_retry": CONNECT_ATTEMPTS, "dmlc_timeout": TIMEOUT_S}
    return Group(hosts, {**json.loads(address), **arguments}, tracker)


@contextmanager
def join(group: Group) -> Iterator[None]:
    """Connect the hosts, so that xgboost trains one booster on them, until the `with` block ends.

    Raises:
        HostsError: xgboost failed, perhaps because another host ended. A retry can help.
    """
    if group.hosts.count == 1:
        yield
        return
    try:
        collective.init(**group.arguments)
        yield
        _leave(group)
    except Stopped:  # all hosts stop after the same round, so they also leave in good order
        with suppress(XGBoostError):  # the checkpoint is saved, so a host that already ended changes nothing
            _leave(group)
        raise
    except XGBoostError as error:
        text = " ".join(str(error).split("Stack trace")[0].split())
        raise HostsError(
            f"the training on {group.hosts.count} hosts ended, perhaps because another host did: {text}"
        ) from None
    finally:
        _free(group.tracker)


def share_line(hosts: Hosts, line: str) -> str:
    """Return on each host the line that the first host has."""
    return line if hosts.count == 1 else _share_bytes(hosts, line.encode()).decode()


def share_checkpoint(hosts: Hosts, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """Return on each host the checkpoint that the first host has; None if it has none."""
    if hosts.count == 1:
        return checkpoint
    content = b""
    if checkpoint and hosts.is_first:
        header = json.dumps([checkpoint.step, checkpoint.saved_at, checkpoint.state])
        content = f"{header}\n".encode() + checkpoint.payload
    header_line, _, payload = _share_bytes(hosts, content).partition(b"\n")
    if not header_line:
        return None
    step, saved_at, state = json.loads(header_line)
    return Checkpoint(step, saved_at, state, payload)


def reduce_max(hosts: Hosts, number: int) -> int:
    """Return on each host the largest of the numbers that the hosts have."""
    if hosts.count == 1:
        return number
    return int(collective.allreduce(np.array([number], np.int64), collective.Op.MAX)[0])


def reduce_sum(hosts: Hosts, number: int) -> int:
    """Return on each host the sum of the numbers that the hosts have."""
    if hosts.count == 1:
        return number
    return int(collective.allreduce(np.array([number], np.int64), collective.Op.SUM)[0])


def _share_bytes(hosts: Hosts, content: bytes) -> bytes:
    """Return on each host the bytes that the first host has.

    xgboost's own `broadcast` unpickles what it receives, and so would run any code that another computer sends.
    """
    array = np.zeros(reduce_max(hosts, len(content) if hosts.is_first else 0), np.uint8)
    if hosts.is_first:
        array[:] = np.frombuffer(content, np.uint8)
    return collective.allreduce(array, collective.Op.MAX).tobytes() if len(array) else b""


def _leave(group: Group) -> None:
    """Disconnect this host. The first host waits for the others: to leave, they need its tracker."""
    collective.finalize()
    if group.tracker:
        group.tracker.wait_for(JOIN_S)


def _free(tracker: RabitTracker | None) -> None:
    """Free a tracker. Python would do so, too, but would print the error of one that still waited for hosts."""
    with suppress(XGBoostError):
        if tracker:
            tracker.free()
