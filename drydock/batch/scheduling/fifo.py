"""Queues without a scheduling policy: first in, first out. The priority of a job has no effect there, as on AWS."""

from collections.abc import Iterable, Sequence

from drydock.batch.scheduling.plans import Capacity, Plan, QueueJob, Start, find_environment


def sort_fifo(waiting_jobs: Iterable[QueueJob]) -> list[QueueJob]:
    """Return the waiting jobs in the order in which they start."""
    return sorted(waiting_jobs, key=lambda job: job.number)


def plan_fifo(waiting_jobs: Iterable[QueueJob], capacities: Sequence[Capacity]) -> Plan:
    """Return which jobs start now. A job without room blocks the jobs behind it.

    Args:
        waiting_jobs: The waiting jobs.
        capacities: The queue's service environments, in its order. The jobs that start take their instances there.
    """
    plan = Plan()
    for job in sort_fifo(waiting_jobs):
        environment = find_environment(job, capacities)
        if environment is None:
            break
        environment.reserve(job)
        plan.starts.append(Start(job, environment.name))
    return plan
