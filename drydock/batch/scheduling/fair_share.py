"""Fair share: the next job is of the share with the least weighted use of instances.

AWS documents the parameters, but not its formula. drydock's formula follows what is documented:

- A share's use is the sum of its instance-seconds within the last `shareDecaySeconds`. Recent seconds weigh more: a
  second that is `a` seconds old has the weight `1 - a / shareDecaySeconds`.
- A running job is added as if it had run during this whole time, so that present use weighs most.
- The use of a share is multiplied by its `weightFactor`: a factor of 0.125 leads to 8 times the instances.
- The fraction `(computeReservation / 100) ** (number of active shares)` of the capacity stays free for new shares,
  rounded down to whole instances.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drydock.batch.scheduling.plans import Capacity, Plan, QueueJob, Start, find_environment, sort_by_priority

MIN_DECAY_S = 600
"""The seconds that a shareDecaySeconds of 0 stands for, as AWS documents it."""
DEFAULT_WEIGHT = 1.0


@dataclass(frozen=True)
class FairShareRules:
    """The fairsharePolicy of a scheduling policy.

    Attributes:
        decay_s: shareDecaySeconds: the age up to which use counts, in seconds. 0 means 600 s.
        reservation_percent: computeReservation, from 0 to 99.
        weights: weightFactor of each share identifier, or of each prefix that ends with an asterisk.
    """

    decay_s: int = 0
    reservation_percent: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def window_s(self) -> float:
        """The age up to which use counts, in seconds."""
        return float(self.decay_s or MIN_DECAY_S)

    def get_weight(self, share: str) -> float:
        """Return the weight factor of a share identifier; 1 if the policy does not state it."""
        if share in self.weights:
            return self.weights[share]
        prefixes = (key for key in self.weights if key.endswith("*") and share.startswith(key[:-1]))
        return next((self.weights[key] for key in prefixes), DEFAULT_WEIGHT)

    def compute_reserved(self, capacity: int, active_shares: int) -> int:
        """Return how many instances stay free for shares that are not active.

        Args:
            capacity: Largest number of instances of one type in all enabled service environments of the queue.
            active_shares: How many shares have jobs, or used instances within the last `window_s` seconds.
        """
        return math.floor(capacity * (self.reservation_percent / 100) ** max(active_shares, 1))


@dataclass(frozen=True)
class PastUse:
    """The instances that an ended attempt of a job had from `start_s` to `end_s`, in seconds since 1970."""

    share: str
    instances: int
    start_s: float
    end_s: float


def compute_decayed_use(use: PastUse, now_s: float, window_s: float) -> float:
    """Return the instance-seconds of a past use, each with its weight: 1 now, 0 at the beginning of the window."""
    start_age_s, end_age_s = (min(max(now_s - moment_s, 0.0), window_s) for moment_s in (use.start_s, use.end_s))

    def integrate(age_s: float) -> float:  # the weights of all seconds from now back to this age
        return age_s - age_s**2 / (2 * window_s)

    return use.instances * (integrate(start_age_s) - integrate(end_age_s))


class ShareUse:
    """The weighted use of each share of a queue.

    Args:
        rules: The fair-share policy.
        running: The jobs that have instances now.
        past: The use of the attempts that have ended.
        now_s: The current time, in seconds since 1970.
    """

    def __init__(
        self, rules: FairShareRules, running: Iterable[QueueJob], past: Iterable[PastUse], now_s: float
    ) -> None:
        self._rules = rules
        self._uses: defaultdict[str, float] = defaultdict(float)
        for use in past:
            self._uses[use.share] += compute_decayed_use(use, now_s, rules.window_s)
        for job in running:
            self.add(job)

    @property
    def active_shares(self) -> set[str]:
        """The shares that use instances, or used them within the window."""
        return {share for share, use in self._uses.items() if use > 0}

    def add(self, job: QueueJob) -> None:
        """Add the use of a job that runs, or that starts now."""
        # The weights of all seconds of the window add up to half of its length.
        self._uses[job.share] += job.instances * self._rules.window_s / 2

    def get(self, share: str) -> float:
        """Return the use of a share in instance-seconds, times its weight factor."""
        return self._uses[share] * self._rules.get_weight(share)


def iterate_by_fair_share(waiting: Iterable[QueueJob], use: ShareUse) -> Iterator[QueueJob]:
    """Yield the waiting jobs in the order in which they start, if there is room. Each is then added to `use`.

    The share with the least weighted use is next; of equal shares, the one whose first job was submitted first.
    """
    queues: defaultdict[str, list[QueueJob]] = defaultdict(list)
    for job in sort_by_priority(waiting):
        queues[job.share].append(job)
    while queues:
        share = min(queues, key=lambda name: (use.get(name), queues[name][0].number))
        job = queues[share].pop(0)
        if not queues[share]:
            del queues[share]
        yield job
        use.add(job)


def plan_fair_share(
    waiting: Sequence[QueueJob],
    running: Sequence[QueueJob],
    past: Iterable[PastUse],
    rules: FairShareRules,
    capacities: Sequence[Capacity],
    now_s: float,
) -> Plan:
    """Return which jobs start now. The first job without room blocks the jobs behind it.

    Otherwise, small jobs could delay it forever.

    Args:
        waiting: The waiting jobs of the queue.
        running: The jobs of the queue that have instances.
        past: The use of the attempts of the queue's jobs that have ended.
        rules: The fair-share policy.
        capacities: The queue's service environments, in its order. The jobs that start take their instances there.
        now_s: The current time, in seconds since 1970.
    """
    use, plan = ShareUse(rules, running, past, now_s), Plan()
    active_count = len(use.active_shares | {job.share for job in waiting})
    for job in iterate_by_fair_share(waiting, use):
        limit = sum(item.get_limit(job.instance_type) for item in capacities if item.is_enabled)
        free = sum(item.get_free_instances(job.instance_type) for item in capacities)
        environment = find_environment(job, capacities)
        if environment is None or job.instances > free - rules.compute_reserved(limit, active_count):
            break
        environment.reserve(job)
        plan.starts.append(Start(job, environment.name))
    return plan
