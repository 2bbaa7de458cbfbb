"""Train one booster on several hosts: each has a share of the rows, and xgboost adds up their histograms.

The hosts make the same decisions in the same order, because each of these functions waits for all hosts. On one host,
nothing is exchanged.

The module is part of the training job's source bundle, so it imports only xgboost, numpy, the standard library and
files of the bundle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from xgboost import collective
from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from pipelines.container.hosts import Hosts, HostsError
from pipelines.container.signals import Stopped

T = TypeVar("T")
JOIN_S = 60
"""Longest time in which the hosts connect to each other, after the first host has passed its address to all."""
TIMEOUT_S = 600
"""Longest time that a host waits for another one in a round, for example while the first one saves a checkpoint."""
RETRIES = 2
"""Number of attempts to connect to another host."""


@dataclass(frozen=True)
class Group:
    """The hosts of a job, the address at which they connect, and what gives each its rank."""

    hosts: Hosts
    arguments: Mapping[str, Any]
    """Arguments of xgboost's `collective.init`."""
    tracker: RabitTracker | None
    """What gives the hosts their ranks; only the first of several hosts has it."""


def find_group(hosts: Hosts, identity: str) -> Group:
    """Wait until all hosts are ready, and find out where they connect. A signal may interrupt the wait.

    Args:
        hosts: the hosts of the job.
        identity: digest of everything that must be equal on all hosts.

    Raises:
        HostsError: a host did not come, or has other inputs. A retry can help in the first case.
    """
    if hosts.count == 1:
        return Group(hosts, {}, None)
    tracker = None
    if hosts.is_first:
        # The port is chosen by the system: that of an earlier run on this machine would stay blocked for a minute.
        tracker = RabitTracker(hosts.count, hosts.find_address(), sortby="task", timeout=JOIN_S)
        tracker.start()
    try:
        address = hosts.share(json.dumps(tracker.worker_args() if tracker else {}), identity)
    except BaseException:
        _free(tracker)
        raise
    # The digits make the order of the names that of the hosts: the first host gets the rank 0.
    arguments = {"dmlc_task_id": f"{hosts.index:06d}", "dmlc_retry": RETRIES, "dmlc_timeout": TIMEOUT_S}
    return Group(hosts, {**json.loads(address), **arguments}, tracker)


@contextmanager
def join(group: Group) -> Iterator[None]:
    """Connect the hosts, so that xgboost trains one booster on them, until the `with` block ends.

    Raises:
        HostsError: another host ended during the training. A retry can help.
    """
    if group.hosts.count == 1:
        yield
        return
    try:
        collective.init(**group.arguments)
        yield
        collective.finalize()
        if group.tracker:
            group.tracker.wait_for(JOIN_S)
    except Stopped:  # all hosts stop after the same round, so they also leave in good order
        collective.finalize()
        raise
    except XGBoostError as error:
        text = " ".join(str(error).split("Stack trace")[0].split())
        raise HostsError(
            f"the training on {group.hosts.count} hosts ended, perhaps because another host did: {text}"
        ) from None
    finally:
        _free(group.tracker)


def share_from_first(hosts: Hosts, value: T) -> T:
    """Return on each host the value that the first host has."""
    if hosts.count == 1:
        return value
    values: list[T] = collective.broadcast([value], root=0)
    return values[0]


def find_largest(hosts: Hosts, number: int) -> int:
    """Return on each host the largest of the numbers that the hosts have."""
    if hosts.count == 1:
        return number
    return int(collective.allreduce(np.array([number], np.int64), collective.Op.MAX)[0])


def _free(tracker: RabitTracker | None) -> None:
    """Free a tracker. Python would do so, too, but would print the error of one that still waited for hosts."""
    with suppress(XGBoostError):
        if tracker:
            tracker.free()
