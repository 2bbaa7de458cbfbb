"""A simulated spot market: it decides when a spot job is interrupted, and whether there is capacity."""

import math
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from drydock.errors import InvalidSetting
from drydock.jobs.job import Job

JobKey = tuple[str, str, str]
"""Account id, region and name of a job."""


@dataclass(frozen=True)
class Interruption:
    """A planned interruption.

    Attributes:
        after_s: Seconds from the start of the run until the interruption.
        no_capacity_s: Seconds after the interruption in which there is no capacity for the job.
        notice_s: Seconds from SIGTERM to SIGKILL; with 0 the job is killed at once, without a last checkpoint upload.
    """

    after_s: float
    no_capacity_s: float
    notice_s: float


@dataclass(frozen=True)
class Schedule:
    """The interruptions of the jobs whose names match a pattern.

    Attributes:
        job: Shell pattern of job names.
        after_s: For each run of a job, seconds of running time until its interruption; a negative number means none.
            The schedule does not interrupt runs beyond the end of the list.
    """

    job: str
    after_s: Sequence[float]


@dataclass(frozen=True)
class SpotPolicy:
    """The behavior of the market if no command or request changes it.

    The attributes are the keys of the table [spot] in drydock's configuration file. `interruptions` is called
    `interrupt` there.

    Attributes:
        seed: Seed of the random interruptions: equal seeds interrupt the same runs after the same seconds.
        interruption_probability: Probability that a run is interrupted within one minute, at least 0 and below 1.
        notice_s: Seconds from SIGTERM to SIGKILL at an interruption (SageMaker: 120).
        no_capacity_s: Seconds after an interruption in which there is no capacity for that job.
        billable_fraction: Billable seconds per training second of a spot job, above 0 and at most 1.
        without_capacity: Shell patterns of instance types without spot capacity.
        interruptions: Schedules; the first one that matches a job's name is used.
    """

    seed: int = 0
    interruption_probability: float = 0.0
    notice_s: float = 120.0
    no_capacity_s: float = 5.0
    billable_fraction: float = 0.3
    without_capacity: Sequence[str] = ()
    interruptions: Sequence[Schedule] = ()

    def __post_init__(self) -> None:
        """Check the ranges of the numbers.

        Raises:
            InvalidSetting: A number is out of range. A retry cannot help.
        """
        if not 0 <= self.interruption_probability < 1:
            raise InvalidSetting(f"interruption_probability must be in [0, 1), not {self.interruption_probability}")
        if not 0 < self.billable_fraction <= 1:
            raise InvalidSetting(f"billable_fraction must be in (0, 1], not {self.billable_fraction}")
        if not all(0 <= seconds < math.inf for seconds in (self.notice_s, self.no_capacity_s)):
            raise InvalidSetting("notice_s and no_capacity_s must be finite and not negative")


@dataclass
class _JobState:
    """The market's state of one job: requested interruptions, and until when it gets no capacity (`time.monotonic`)."""

    requested_interruptions: list[Interruption] = field(default_factory=list)
    no_capacity_until: float = 0.0


class SpotMarket:
    """Decides when to interrupt a run, and whether a waiting job can get its instances. Safe for several threads.

    Args:
        policy: How the market behaves if no command or request changes it.
    """

    def __init__(self, policy: SpotPolicy) -> None:
        self.policy = policy
        self._lock = threading.Lock()
        self._states: dict[JobKey, _JobState] = {}
        # Pattern of instance types, whether they are available, and until when (monotonic clock); the newest last.
        self._capacity_rules: list[tuple[str, bool, float]] = [
            (pattern, False, math.inf) for pattern in reversed(policy.without_capacity)
        ]

    def request_interruption(self, job: Job, interruption: Interruption) -> None:
        """Request the interruption of a job's current run, or of its next run if none is in progress."""
        with self._lock:
            self._get_state(job).requested_interruptions.append(interruption)

    def set_capacity(self, instance_types: str, available: bool, duration_s: float | None = None) -> None:
        """Make spot instances available or unavailable, for a duration or permanently.

        The new rule replaces an earlier rule with the same pattern. The earlier rule does not return when the new rule
        ends.

        Args:
            instance_types: Shell pattern of instance types.
            available: Whether they are available.
            duration_s: Seconds until the rule ends; None: it is permanent.
        """
        ends_at = math.inf if duration_s is None else time.monotonic() + duration_s
        with self._lock:
            self._capacity_rules = [rule for rule in self._capacity_rules if rule[0] != instance_types]
            self._capacity_rules.append((instance_types, available, ends_at))

    def has_capacity(self, job: Job) -> bool:
        """Return whether a job can get its instances now. On-demand jobs always can."""
        now = time.monotonic()
        with self._lock:
            if not job.is_spot:
                return True
            has_capacity = now >= self._get_state(job).no_capacity_until
            for pattern, available, ends_at in reversed(self._capacity_rules):  # the newest rule has precedence
                if now < ends_at and fnmatchcase(job.instance_type, pattern):
                    return available and has_capacity
            return has_capacity

    def take_due_interruption(self, job: Job, running_s: float) -> Interruption | None:
        """Return an interruption of the job's current run that is due now; None if there is none.

        If an interruption is due, the job has no capacity for the interruption's no_capacity_s seconds from now on. All
        requested interruptions that are due are removed, so that they do not interrupt the next run.

        Args:
            job: A running job.
            running_s: Seconds since the start of the job's current run.
        """
        if not job.is_spot:
            return None
        with self._lock:
            state = self._get_state(job)
            requests = state.requested_interruptions
            interruptions = [*requests, *self._plan_interruptions(job)]
            due_interruption = next((item for item in interruptions if item.after_s <= running_s), None)
            if due_interruption is not None:
                state.requested_interruptions = [item for item in requests if item.after_s > running_s]
                state.no_capacity_until = time.monotonic() + due_interruption.no_capacity_s
            return due_interruption

    def describe(self) -> dict[str, Any]:
        """Return the policy and the current capacity rules, as JSON-compatible values."""
        now = time.monotonic()
        with self._lock:
            # JSON has no infinity: a permanent rule has the largest integer as its duration.
            rules = [
                {"instance_type": pattern, "available": available, "for_s": min(ends_at - now, sys.maxsize)}
                for pattern, available, ends_at in self._capacity_rules
                if now < ends_at
            ]
        return {**asdict(self.policy), "capacity": rules}

    def _get_state(self, job: Job) -> _JobState:
        return self._states.setdefault((job.account_id, job.region, job.name), _JobState())

    def _plan_interruptions(self, job: Job) -> list[Interruption]:
        """Return the interruptions that the policy plans for the job's current run: scheduled ones and random ones."""
        policy, run_index = self.policy, job.run_count - 1
        running_times_s = []
        schedule = next((schedule for schedule in policy.interruptions if fnmatchcase(job.name, schedule.job)), None)
        if schedule is not None and run_index < len(schedule.after_s) and schedule.after_s[run_index] >= 0:
            running_times_s.append(schedule.after_s[run_index])
        if policy.interruption_probability:
            generator = random.Random(f"{policy.seed}/{job.name}/{run_index}")  # noqa: S311  a simulation, not a secret
            # Exponential distribution with P(T < 60 s) = interruption_probability.
            running_times_s.append(generator.expovariate(-math.log1p(-policy.interruption_probability) / 60))
        return [Interruption(after_s, policy.no_capacity_s, policy.notice_s) for after_s in running_times_s]
