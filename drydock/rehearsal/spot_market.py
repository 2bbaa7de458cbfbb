"""The spot market, in the hand of whoever rehearses: when a job is interrupted, and when there is capacity."""

import math
import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from drydock.errors import CannotStart
from drydock.jobs.job import Job

JobKey = tuple[str, str, str]


@dataclass(frozen=True)
class Interruption:
    """An interruption to come.

    Attributes:
        after_s: Seconds of running, in the run it is meant for.
        back_after_s: Seconds from then until there is capacity again.
        notice_s: Seconds from SIGTERM to SIGKILL; 0 kills at once, and copies no checkpoint any more.
    """

    after_s: float
    back_after_s: float
    notice_s: float


@dataclass(frozen=True)
class Schedule:
    """Which jobs are interrupted when: the n-th run of a job after after_s[n] seconds, later runs not at all.

    Attributes:
        job: Pattern of job names, as a shell's.
        after_s: Seconds of running, run by run; a negative number lets that run be.
    """

    job: str
    after_s: Sequence[float]


@dataclass(frozen=True)
class Policy:
    """How the market behaves by itself.

    Attributes:
        seed: Of the draws: the same seed interrupts the same jobs' runs at the same seconds.
        interruption_probability: Chance that a run is interrupted within a minute.
        notice_s: Seconds from SIGTERM to SIGKILL at an interruption (SageMaker: 120).
        capacity_back_after_s: Seconds from an interruption until there is capacity for that job again.
        billable_fraction: Billable seconds per training second of a spot job.
        without_capacity: Patterns of instance types that cannot be had on spot.
        interruptions: Schedules; the first that matches a job's name counts.
    """

    seed: int = 0
    interruption_probability: float = 0.0
    notice_s: float = 120.0
    capacity_back_after_s: float = 5.0
    billable_fraction: float = 0.3
    without_capacity: Sequence[str] = ()
    interruptions: Sequence[Schedule] = ()

    def __post_init__(self) -> None:
        """Refuses what cannot be.

        Raises:
            CannotStart: A number is out of its range.
        """
        if not 0 <= self.interruption_probability < 1:
            raise CannotStart(f"interruption_probability must be in [0, 1), not {self.interruption_probability}")
        if not 0 < self.billable_fraction <= 1:
            raise CannotStart(f"billable_fraction must be in (0, 1], not {self.billable_fraction}")
        if min(self.notice_s, self.capacity_back_after_s) < 0:
            raise CannotStart("notice_s and capacity_back_after_s must not be negative")


@dataclass
class _Place:
    """What the market knows of one job."""

    orders: list[Interruption] = field(default_factory=list)
    not_before: float = 0.0


class SpotMarket:
    """Answers when to interrupt a run, and whether a waiting job can have its instances. Safe from any thread.

    Args:
        policy: How it behaves by itself; orders come on top.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._lock = threading.Lock()
        self._places: dict[JobKey, _Place] = {}
        self._capacity: list[tuple[str, bool, float]] = [
            (pattern, False, math.inf) for pattern in reversed(policy.without_capacity)
        ]

    def order(self, job: Job, interruption: Interruption) -> None:
        """The job's current run, or else its next one, will be interrupted; after_s counts from the run's start."""
        with self._lock:
            self._place(job).orders.append(interruption)

    def set_capacity(self, instance_types: str, available: bool, for_s: float | None = None) -> None:
        """From now on, for so many seconds, spot instances whose type matches the pattern can or cannot be had."""
        until = math.inf if for_s is None else time.monotonic() + for_s
        with self._lock:
            self._capacity = [known for known in self._capacity if known[0] != instance_types]
            self._capacity.append((instance_types, available, until))

    def has_capacity(self, job: Job) -> bool:
        """Return whether the job can have its instances now. On demand there is always capacity."""
        moment = time.monotonic()
        with self._lock:
            if not job.spot:
                return True
            for pattern, available, until in reversed(self._capacity):  # the latest word counts
                if moment < until and fnmatchcase(job.instance_type, pattern):
                    return available and moment >= self._place(job).not_before
            return moment >= self._place(job).not_before

    def due(self, job: Job, running_s: float) -> Interruption | None:
        """Return the interruption that a run of a spot job has come to after running_s seconds, once; None mostly."""
        if not job.spot:
            return None
        with self._lock:
            place = self._place(job)
            planned = [*place.orders, *self._planned(job)]
            found = next((one for one in planned if one.after_s <= running_s), None)
            if found is not None:
                place.orders = [one for one in place.orders if one.after_s > running_s]
                place.not_before = time.monotonic() + found.back_after_s
            return found

    def describe(self) -> dict[str, Any]:
        """Return the policy and the capacity as they are now, for people."""
        moment = time.monotonic()
        with self._lock:
            rules = [
                {"instance_type": pattern, "available": available, "for_s": min(until - moment, sys.maxsize)}
                for pattern, available, until in self._capacity
                if moment < until
            ]
        return {**asdict(self.policy), "capacity": rules}

    def _place(self, job: Job) -> _Place:
        return self._places.setdefault((job.account_id, job.region, job.name), _Place())

    def _planned(self, job: Job) -> list[Interruption]:
        policy, run = self.policy, job.runs - 1
        seconds = []
        schedule = next((one for one in policy.interruptions if fnmatchcase(job.name, one.job)), None)
        if schedule is not None and run < len(schedule.after_s) and schedule.after_s[run] >= 0:
            seconds.append(schedule.after_s[run])
        if policy.interruption_probability:
            drawn = random.Random(f"{policy.seed}/{job.name}/{run}")  # noqa: S311  a rehearsal, not a secret
            seconds.append(drawn.expovariate(-math.log1p(-policy.interruption_probability) / 60))
        return [Interruption(after_s, policy.capacity_back_after_s, policy.notice_s) for after_s in seconds]


def policy_of(table: Mapping[str, Any]) -> Policy:
    """Return the policy that a configuration's [spot] table says.

    Raises:
        CannotStart: A key is unknown, or a value is of the wrong kind.
    """
    values = dict(table)
    try:
        schedules = [_schedule(one) for one in values.pop("interrupt", [])]
        return Policy(**values, interruptions=schedules)
    except (TypeError, KeyError, ValueError) as error:
        known = ", ".join([*Policy.__dataclass_fields__, "interrupt"])
        raise CannotStart(f"[spot] is wrong: {error}; it has {known}") from None


def _schedule(one: Mapping[str, Any]) -> Schedule:
    return Schedule(str(one["job"]), [float(seconds) for seconds in one["after_s"]])
