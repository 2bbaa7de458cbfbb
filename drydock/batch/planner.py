"""Plan queues: build the input of the scheduling rules from the stored jobs."""

from collections.abc import Mapping, Sequence

from drydock.batch.jobs import Attempt, ServiceJob
from drydock.batch.lifecycle import is_waiting
from drydock.batch.queues import BatchQueues
from drydock.batch.records import DISABLED, Queue, QuotaShare, SchedulingPolicy
from drydock.batch.scheduling.fair_share import (
    FairShareRules,
    PastUse,
    ShareUse,
    iterate_by_fair_share,
    plan_fair_share,
)
from drydock.batch.scheduling.fifo import plan_fifo, sort_fifo
from drydock.batch.scheduling.plans import Capacity, Plan, QueueJob
from drydock.batch.scheduling.quota import UNLIMITED, QuotaPlanner, QuotaRules, sort_by_share
from drydock.resources import Owner


def list_capacities(batch: BatchQueues, owner: Owner) -> dict[str, Capacity]:
    """Return the capacities of an owner's service environments, by ARN, minus the instances of the running jobs."""
    capacities = {
        item.arn: Capacity(
            item.arn, {limit["capacityUnit"]: limit["maxCapacity"] for limit in item.limits}, item.state != DISABLED
        )
        for item in batch.tables.environments.list_all(owner)
    }
    for job in batch.tables.jobs.list_all(owner):
        if job.current_attempt is not None and job.current_attempt.environment in capacities:
            capacities[job.current_attempt.environment].reserve(build_queue_job(job))
    return capacities


class QueuePlanner:
    """Plans one queue.

    Args:
        batch: The queues of AWS Batch.
        owner: The owner of the queue.
        queue: The queue.
        jobs: The jobs of the queue.

    Attributes:
        waiting: The jobs that wait for instances.
        running: The jobs that have instances.
    """

    def __init__(self, batch: BatchQueues, owner: Owner, queue: Queue, jobs: Sequence[ServiceJob]) -> None:
        self._batch, self._owner, self._queue = batch, owner, queue
        self._jobs, self._policy = jobs, batch.tables.find_policy(owner, queue)
        self.waiting = [build_queue_job(job) for job in jobs if is_waiting(job)]
        self.running = [build_queue_job(job) for job in jobs if job.current_attempt is not None]

    def plan(self, capacities: Mapping[str, Capacity]) -> Plan:
        """Return the jobs to start and to preempt now. The jobs to start take their instances from `capacities`."""
        queue_capacities = [capacities[arn] for arn in self._queue.environments if arn in capacities]
        if self._policy is None:
            return plan_fifo(self.waiting, queue_capacities)
        if self._policy.quota_share is not None:
            shares = self._batch.tables.list_quota_shares(self._owner, self._queue)
            return QuotaPlanner(self.waiting, self.running, read_quota_rules(shares), queue_capacities).plan()
        rules = read_fair_share_rules(self._policy)
        return plan_fair_share(
            self.waiting, self.running, self._list_past_uses(rules), rules, queue_capacities, self._batch.now()
        )

    def sort_waiting(self) -> list[QueueJob]:
        """Return the waiting jobs in the order in which they start."""
        if self._policy is None:
            return sort_fifo(self.waiting)
        if self._policy.quota_share is not None:
            return sort_by_share(self.waiting)
        rules = read_fair_share_rules(self._policy)
        use = ShareUse(rules, self.running, self._list_past_uses(rules), self._batch.now())
        return list(iterate_by_fair_share(self.waiting, use))

    def _list_past_uses(self, rules: FairShareRules) -> list[PastUse]:
        window_begin_s = self._batch.now() - rules.window_s
        return [
            PastUse(job.share, job.instances, attempt.scheduled_ms / 1_000, attempt.stopped_ms / 1_000)
            for job in self._jobs
            for attempt in job.ended_attempts
            if attempt.stopped_ms is not None and attempt.stopped_ms / 1_000 > window_begin_s
        ]


def build_queue_job(job: ServiceJob) -> QueueJob:
    """Convert a stored service job to the form that the scheduling rules use."""
    attempt: Attempt | None = job.current_attempt
    return QueueJob(
        job.id,
        job.number,
        job.instance_type,
        job.instances,
        job.share,
        job.priority,
        started_s=attempt.scheduled_ms / 1_000 if attempt else 0.0,
        is_stopping=attempt is not None and attempt.stop_cause is not None,
    )


def read_fair_share_rules(policy: SchedulingPolicy) -> FairShareRules:
    """Return the rules of a fair-share policy."""
    content = policy.fair_share or {}
    distribution = content.get("shareDistribution", [])
    return FairShareRules(
        content.get("shareDecaySeconds", 0),
        content.get("computeReservation", 0),
        {item["shareIdentifier"]: item.get("weightFactor", 1.0) for item in distribution},
    )


def read_quota_rules(shares: Sequence[QuotaShare]) -> dict[str, QuotaRules]:
    """Return the rules of quota shares, by their names."""
    return {
        share.name: QuotaRules(
            {limit["capacityUnit"]: limit["maxCapacity"] for limit in share.limits},
            share.sharing["strategy"],
            share.sharing.get("borrowLimit", UNLIMITED),
            share.preemption["inSharePreemption"] == "ENABLED",
        )
        for share in shares
    }
