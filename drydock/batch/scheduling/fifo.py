"""Queues without a scheduling policy: first in, first out. The priority of a job has no effect there, as on AWS."""

from collections.abc import Iterable, Sequence

from drydock.batch.scheduling.work import Capacity, Plan, Start, Work, find_environment


def sort_fifo(waiting: Iterable[Work]) -> list[Work]:
    """Return the waiting jobs in the order in which they start."""
    return sorted(waiting, key=lambda job: job.number)


def plan_fifo(waiting: Iterable[Work], capacities: Sequence[Capacity]) -> Plan:
    """Return which jobs start now. A job without room blocks the jobs behind it.

    Args:
        waiting: The waiting jobs.
        capacities: The queue's service environments, in its order. The jobs that start take their instances there.
    """
    plan = Plan()
    for job in sort_fifo(waiting):
        environment = find_environment(job, capacities)
        if environment is None:
            break
        environment.take(job)
        plan.starts.append(Start(job, environment.name))
    return plan
