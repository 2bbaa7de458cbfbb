"""Answer GetJobQueueSnapshot: the front of a queue, and how many instances its jobs use."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from drydock.batch.jobs import ServiceJob
from drydock.batch.planner import QueuePlanner
from drydock.batch.queues import FRONT_JOBS, BatchQueues
from drydock.resources import Owner

TOP_SHARES = 20
"""Largest number of shares in topCapacityUtilization."""


def get_job_queue_snapshot(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer GetJobQueueSnapshot."""
    queue, now_ms = batch.find_queue(owner, request["jobQueue"]), batch.now_ms
    jobs = {job.id: job for job in batch.tables.list_jobs(owner, queue)}
    order = [jobs[queue_job.id] for queue_job in QueuePlanner(batch, owner, queue, list(jobs.values())).sort_waiting()]
    positions = batch.positions.get(queue.arn, {})
    # For a job without a recorded position, the time of its creation is used.
    entries = [
        {"jobArn": job.arn, "earliestTimeAtPosition": positions.get(job.id, (0, job.created_ms))[1]} for job in order
    ]
    running = [job for job in jobs.values() if job.current_attempt is not None]
    snapshot: dict[str, Any] = {
        "frontOfQueue": {"jobs": entries[:FRONT_JOBS], "lastUpdatedAt": now_ms},
        "queueUtilization": {"totalCapacityUsage": _count_instances(running), "lastUpdatedAt": now_ms},
    }
    policy = batch.tables.find_policy(owner, queue)
    if policy is None:
        return snapshot
    if policy.quota_share is None:
        shares = {job.share for job in running}
        snapshot["queueUtilization"]["fairshareUtilization"] = {
            "activeShareCount": len(shares),
            "topCapacityUtilization": _list_top_shares(running, "shareIdentifier"),
        }
        return snapshot
    snapshot["queueUtilization"]["quotaShareUtilization"] = {
        "topCapacityUtilization": _list_top_shares(running, "quotaShareName")
    }
    first_jobs: dict[str, Any] = {}
    for job, entry in zip(order, entries, strict=True):
        first_jobs.setdefault(job.share, [entry])
    snapshot["frontOfQuotaShares"] = {"quotaShares": first_jobs, "lastUpdatedAt": now_ms}
    return snapshot


def _count_instances(jobs: Iterable[ServiceJob]) -> list[dict[str, Any]]:
    """Return how many instances of each type the jobs use, as capacityUsage."""
    counts = Counter[str]()
    for job in jobs:
        counts[job.instance_type] += job.instances
    return [{"capacityUnit": unit, "quantity": float(count)} for unit, count in sorted(counts.items())]


def _list_top_shares(jobs: list[ServiceJob], member: str) -> list[dict[str, Any]]:
    """Return the shares that use the most instances, each with its name in `member`."""
    counts = Counter[str]()
    for job in jobs:
        counts[job.share] += job.instances
    return [
        {member: share, "capacityUsage": _count_instances(job for job in jobs if job.share == share)}
        for share, _ in counts.most_common(TOP_SHARES)
    ]
