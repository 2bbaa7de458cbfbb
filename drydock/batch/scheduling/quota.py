"""Plan the jobs of a queue of AWS Batch with quota shares.

Each share has instances of its own. It may lend its idle instances, and borrow idle instances of other shares. If a
share needs the instances that it lent, jobs of other shares are preempted. A share can also let its jobs preempt its
own jobs of lower priority.

AWS documents the strategies and when jobs are preempted, but not how it chooses these jobs. To give a share its
instances back, drydock chooses among the jobs of shares above their limit. Jobs that are not larger than what their
share has borrowed are preempted first, then jobs of the lowest priority, then jobs that started last, because the
least work is lost.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drydock.batch.scheduling.plans import (
    Capacity,
    Plan,
    Preemption,
    QueueJob,
    Start,
    can_ever_run,
    find_environment,
    sort_by_priority,
)

RESERVE, LEND, LEND_AND_BORROW = "RESERVE", "LEND", "LEND_AND_BORROW"
UNLIMITED = -1
"""The borrowLimit of a share that may borrow any number of instances."""
CROSS_SHARE_REASON = "Preempted to restore capacity of the quota share {share}."
IN_SHARE_REASON = "Preempted by a job with a higher priority in the quota share {share}."


@dataclass(frozen=True)
class QuotaRules:
    """The rules of one quota share.

    Attributes:
        limits: The instances of each type that the share has without borrowing.
        strategy: RESERVE, LEND or LEND_AND_BORROW.
        borrow_limit_percent: How many instances it may borrow, in percent of its limits; -1 for any number.
        preempts_in_share: Whether a job may preempt a job of lower priority in the same share.
    """

    limits: Mapping[str, int]
    strategy: str
    borrow_limit_percent: int = UNLIMITED
    preempts_in_share: bool = False

    def get_limit(self, instance_type: str) -> int:
        """Return the instances of a type that the share has without borrowing."""
        return self.limits.get(instance_type, 0)

    def may_borrow(self, instance_type: str, total: int) -> bool:
        """Return whether the share may have a total number of instances of a type, if enough are idle.

        A share cannot borrow instances of a type of which it has none.
        """
        limit = self.get_limit(instance_type)
        if self.strategy != LEND_AND_BORROW or not limit:
            return False
        return self.borrow_limit_percent == UNLIMITED or total <= limit * (1 + self.borrow_limit_percent / 100)


class QuotaPlanner:
    """Plans one queue with quota shares. Call `plan` once.

    Args:
        waiting: The waiting jobs of the queue.
        running: The jobs of the queue that have instances.
        shares: The rules of the quota shares by their names. Jobs of other shares wait.
        capacities: The queue's service environments, in its order. The jobs that start take their instances there.
    """

    def __init__(
        self,
        waiting: Sequence[QueueJob],
        running: Sequence[QueueJob],
        shares: Mapping[str, QuotaRules],
        capacities: Sequence[Capacity],
    ) -> None:
        self._shares, self._capacities, self._plan = shares, capacities, Plan()
        self._running = [job for job in running if job.share in shares]
        self._used_instances: defaultdict[tuple[str, str], int] = defaultdict(int)
        for job in self._running:
            self._used_instances[job.share, job.instance_type] += job.instances
        self._queues = {name: sort_by_priority(job for job in waiting if job.share == name) for name in shares}
        self._preempted: set[str] = {job.id for job in self._running if job.is_stopping}
        # Instances that no share may borrow, by type: a share has lent them, and a waiting job of it gets them back.
        self._held_instances: defaultdict[str, int] = defaultdict(int)

    def plan(self) -> Plan:
        """Return which jobs start, and which are preempted."""
        # First the share whose first job was submitted first. A share without waiting jobs has nothing to start.
        for name in sorted(self._queues, key=lambda item: [job.number for job in self._queues[item][:1]]):
            self._start_within_limit(name)
        self._start_borrowers()
        for name, queue in self._queues.items():
            if queue and self._shares[name].preempts_in_share:
                self._preempt_in_share(queue[0])
        return self._plan

    def _start_within_limit(self, name: str) -> None:
        """Start the next jobs of a share that borrow no instance. If there is no room, preempt jobs that borrow."""
        queue = self._queues[name]
        while queue and self._is_within_limit(queue[0]):
            if not self._start(queue[0]):
                if can_ever_run(queue[0], self._capacities):
                    self._restore_capacity(queue[0])
                return
            queue.pop(0)

    def _is_within_limit(self, job: QueueJob) -> bool:
        limit = self._shares[job.share].get_limit(job.instance_type)
        return self._used_instances[job.share, job.instance_type] + job.instances <= limit

    def _start_borrowers(self) -> None:
        """Start jobs that borrow idle instances, in the order of their submission (AWS's strategy FIFO)."""
        blocked: set[str] = set()
        while first_jobs := [queue[0] for name, queue in self._queues.items() if queue and name not in blocked]:
            job = min(first_jobs, key=lambda item: item.number)
            if self._can_borrow(job) and self._start(job):
                self._queues[job.share].pop(0)
            else:
                blocked.add(job.share)

    def _can_borrow(self, job: QueueJob) -> bool:
        total = self._used_instances[job.share, job.instance_type] + job.instances
        idle = self._count_free(job.instance_type) - self._held_instances[job.instance_type] - self._count_reserved(job)
        return self._shares[job.share].may_borrow(job.instance_type, total) and job.instances <= idle

    def _count_reserved(self, job: QueueJob) -> int:
        """Return the idle instances that other shares keep for themselves (RESERVE)."""
        return sum(
            max(rules.get_limit(job.instance_type) - self._used_instances[name, job.instance_type], 0)
            for name, rules in self._shares.items()
            if rules.strategy == RESERVE and name != job.share
        )

    def _start(self, job: QueueJob) -> bool:
        environment = find_environment(job, self._capacities)
        if environment is None:
            return False
        environment.reserve(job)
        self._used_instances[job.share, job.instance_type] += job.instances
        self._plan.starts.append(Start(job, environment.name))
        return True

    def _count_free(self, instance_type: str) -> int:
        return sum(item.get_free_instances(instance_type) for item in self._capacities)

    def _restore_capacity(self, job: QueueJob) -> None:
        """Preempt jobs of shares above their limits, so that a job's share gets back the instances that it lent."""
        instance_type = job.instance_type
        self._held_instances[instance_type] += job.instances
        missing = (
            self._held_instances[instance_type] - self._count_free(instance_type) - self._count_stopping(instance_type)
        )
        reason = CROSS_SHARE_REASON.format(share=job.share)
        while missing > 0 and (victim := self._choose_borrower(job)):
            missing -= victim.instances
            self._preempt(victim, reason)

    def _choose_borrower(self, job: QueueJob) -> QueueJob | None:
        """Return the job of another share above its limit that is preempted next; None if there is none."""
        borrowed = {
            name: self._used_instances[name, job.instance_type]
            - self._count_stopping(job.instance_type, name)
            - rules.get_limit(job.instance_type)
            for name, rules in self._shares.items()
        }
        candidates = [item for item in self._list_victims(job) if item.share != job.share and borrowed[item.share] > 0]
        return min(
            candidates,
            key=lambda item: (item.instances > borrowed[item.share], *_build_victim_sort_key(item)),
            default=None,
        )

    def _preempt_in_share(self, job: QueueJob) -> None:
        """Preempt jobs of lower priority in the share of a job, if their instances are enough for the job."""
        instance_type, limit = job.instance_type, self._shares[job.share].get_limit(job.instance_type)
        # If the share has borrowed instances, these must become free, too. The job cannot count on them: another share
        # may borrow them.
        missing = job.instances - (limit - self._used_instances[job.share, instance_type])
        missing -= self._count_stopping(instance_type, job.share)
        victims = sorted(
            (item for item in self._list_victims(job) if item.share == job.share and item.priority < job.priority),
            key=_build_victim_sort_key,
        )
        if job.instances > limit or sum(item.instances for item in victims) < missing:
            return
        for victim in victims:
            if missing <= 0:
                return
            missing -= victim.instances
            self._preempt(victim, IN_SHARE_REASON.format(share=job.share))

    def _list_victims(self, job: QueueJob) -> list[QueueJob]:
        return [
            item for item in self._running if item.instance_type == job.instance_type and item.id not in self._preempted
        ]

    def _count_stopping(self, instance_type: str, share: str | None = None) -> int:
        """Return how many instances of a type become free soon, in one share or in all."""
        return sum(
            item.instances
            for item in self._running
            if item.id in self._preempted and item.instance_type == instance_type and share in (None, item.share)
        )

    def _preempt(self, job: QueueJob, reason: str) -> None:
        self._preempted.add(job.id)
        self._plan.preemptions.append(Preemption(job, reason))


def _build_victim_sort_key(job: QueueJob) -> tuple[int, float]:
    return job.priority, -job.started_s


def sort_by_share(waiting: Sequence[QueueJob]) -> list[QueueJob]:
    """Return the waiting jobs of a queue with quota shares in the order in which they start, if each share has room.

    Among the first jobs of all shares, the one that was submitted first is next.
    """
    queues: defaultdict[str, list[QueueJob]] = defaultdict(list)
    for job in sort_by_priority(waiting):
        queues[job.share].append(job)
    jobs: list[QueueJob] = []
    while first_jobs := [queue[0] for queue in queues.values() if queue]:
        jobs.append(min(first_jobs, key=lambda item: item.number))
        queues[jobs[-1].share].pop(0)
    return jobs
