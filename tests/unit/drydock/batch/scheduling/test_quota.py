"""Test quota shares: limits, lending, borrowing, and which jobs are preempted."""

from collections.abc import Sequence

import pytest

from drydock.batch.scheduling.plans import Capacity, QueueJob
from drydock.batch.scheduling.quota import LEND, LEND_AND_BORROW, RESERVE, QuotaPlanner, QuotaRules

TYPE = "ml.m5.large"


def create_job(number: int, share: str, priority: int = 0, instances: int = 1, **fields: float) -> QueueJob:
    """Return a job that waits or runs."""
    return QueueJob(f"{share}{number}", number, TYPE, instances, share, priority, **fields)


def create_share(
    limit: int, strategy: str = LEND_AND_BORROW, borrow: int = -1, *, preempts: bool = False
) -> QuotaRules:
    """Return a quota share of one instance type."""
    return QuotaRules({TYPE: limit}, strategy, borrow, preempts)


def plan(
    waiting: Sequence[QueueJob], running: Sequence[QueueJob], size: int, **shares: QuotaRules
) -> tuple[list[str], list[str]]:
    """Return the ids of the jobs that start, and of those that are preempted."""
    capacity = Capacity("a", {TYPE: size})
    for job in running:
        capacity.reserve(job)
    result = QuotaPlanner(waiting, running, shares, [capacity]).plan()
    return [start.job.id for start in result.starts], [item.job.id for item in result.preemptions]


@pytest.mark.parametrize(
    ("strategy_a", "strategy_b", "borrow", "expected"),
    [
        (LEND_AND_BORROW, LEND, -1, 4),
        (LEND_AND_BORROW, RESERVE, -1, 2),  # B keeps its idle instances
        (RESERVE, LEND, -1, 2),  # A does not borrow
        (LEND, LEND, -1, 2),
        (LEND_AND_BORROW, LEND, 50, 3),  # half of its two instances more
        (LEND_AND_BORROW, LEND, 0, 2),
    ],
)
def test_idle_instances_are_borrowed_as_the_strategies_say(
    strategy_a: str, strategy_b: str, borrow: int, expected: int
) -> None:
    jobs = [create_job(number, "A") for number in range(6)]
    starts, _ = plan(jobs, [], 4, A=create_share(2, strategy_a, borrow), B=create_share(2, strategy_b))
    assert len(starts) == expected


def test_jobs_within_their_limit_go_before_borrowers_and_borrowers_are_first_come() -> None:
    shares = {name: create_share(1) for name in "ABC"}
    jobs = [create_job(1, "A"), create_job(2, "A"), create_job(3, "B"), create_job(4, "B")]
    assert plan(jobs, [], 2, **shares) == (["A1", "B3"], [])
    assert plan(jobs, [], 3, **shares) == (["A1", "B3", "A2"], [])


def test_borrowed_instances_are_restored_by_preemption_of_the_lowest_priority_and_latest_start() -> None:
    running = [
        create_job(1, "A", priority=9, started_s=50.0),
        create_job(2, "A", priority=1, started_s=10.0),
        create_job(3, "A", priority=1, started_s=20.0),
    ]
    shares = {"A": create_share(1), "B": create_share(2, LEND)}
    assert plan([create_job(4, "B")], running, 3, **shares) == ([], ["A3"])
    assert plan([create_job(4, "B", instances=2)], running, 3, **shares) == ([], ["A3", "A2"])
    # While the job stops, no second one is preempted, and the borrower does not get the instance back.
    running[2] = create_job(3, "A", priority=1, started_s=20.0, is_stopping=True)
    assert plan([create_job(4, "B"), create_job(5, "A")], running, 3, **shares) == ([], [])
    assert plan([create_job(4, "B"), create_job(3, "A")], running[:2], 3, **shares) == (["B4"], [])


def test_a_share_within_its_limit_is_not_preempted_for_another_one() -> None:
    running = [create_job(1, "A"), create_job(2, "A")]
    assert plan([create_job(3, "B", 99)], running, 2, A=create_share(2), B=create_share(2)) == ([], [])


def test_in_share_preemption_needs_its_setting_and_a_higher_priority() -> None:
    running = [create_job(1, "A", priority=1), create_job(2, "A", priority=2)]
    urgent, equal = create_job(3, "A", priority=5), create_job(4, "A", priority=1)
    assert plan([urgent], running, 2, A=create_share(2, preempts=True)) == ([], ["A1"])
    assert plan([urgent], running, 2, A=create_share(2)) == ([], [])
    assert plan([equal], running, 2, A=create_share(2, preempts=True)) == ([], [])
    too_large = create_job(5, "A", priority=5, instances=3)
    assert plan([too_large], running, 2, A=create_share(2, preempts=True)) == ([], []), "it would not get its instances"


def test_other_instance_types_wait_and_larger_jobs_than_the_environment_hold_nothing() -> None:
    other = QueueJob("x", 1, "ml.g5.xlarge", 1, "A")
    assert plan([other, create_job(2, "B")], [], 1, A=create_share(1), B=create_share(1)) == (["B2"], [])
    huge = create_job(1, "A", instances=3)
    assert plan([huge, create_job(2, "B")], [], 2, A=create_share(3), B=create_share(1)) == (["B2"], [])
