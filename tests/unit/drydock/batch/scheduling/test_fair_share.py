"""Test the rules of fair share, with a simulation of many jobs."""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from drydock.batch.scheduling.fair_share import FairShareRules, PastUse, compute_decayed_use, plan_fair_share
from drydock.batch.scheduling.fifo import plan_fifo
from drydock.batch.scheduling.plans import NUM_INSTANCES, Capacity, Plan, QueueJob

TYPE = "ml.m5.large"


def create_job(number: int, share: str = "A", priority: int = 0, instances: int = 1) -> QueueJob:
    """Return a job that waits."""
    return QueueJob(f"job-{number}", number, TYPE, instances, share, priority)


def plan(
    waiting: Sequence[QueueJob],
    running: Sequence[QueueJob] = (),
    past: Sequence[PastUse] = (),
    rules: FairShareRules | None = None,
    size: int = 1,
) -> list[str]:
    """Return the ids of the jobs that start at second 10,000 in an environment of some size."""
    capacity = Capacity("a", {NUM_INSTANCES: size})
    for job in running:
        capacity.reserve(job)
    starts = plan_fair_share(waiting, running, past, rules or FairShareRules(), [capacity], 10_000.0).starts
    return [start.job.id for start in starts]


def test_weight_of_a_second_falls_to_zero_at_the_end_of_the_window() -> None:
    # Two instances for the last 60 s of a window of 600 s: 2 x (60 - 60^2 / 1200).
    assert compute_decayed_use(PastUse("A", 2, 9_940, 10_000), 10_000, 600) == pytest.approx(2 * (60 - 3))
    assert compute_decayed_use(PastUse("A", 2, 9_400, 10_000), 10_000, 600) == pytest.approx(600)
    assert compute_decayed_use(PastUse("A", 2, 0, 9_400), 10_000, 600) == 0
    older = compute_decayed_use(PastUse("A", 1, 9_500, 9_560), 10_000, 600)
    assert older < compute_decayed_use(PastUse("A", 1, 9_900, 9_960), 10_000, 600)


def test_share_with_the_least_use_goes_first_then_priority_then_order() -> None:
    jobs = [create_job(1), create_job(2, priority=5), create_job(3, "B"), create_job(4, "B", priority=5)]
    assert plan(jobs, size=4) == ["job-2", "job-4", "job-1", "job-3"]
    assert plan(jobs, past=[PastUse("A", 1, 9_000, 9_900)]) == ["job-4"]
    assert plan(jobs, past=[PastUse("B", 1, 9_000, 9_900)]) == ["job-2"]
    assert plan(jobs, past=[PastUse("A", 1, 9_000, 9_390)]) == ["job-2"], "use before the window does not count"


def test_a_longer_decay_remembers_more() -> None:
    jobs, past = [create_job(1), create_job(2, "B")], [PastUse("A", 1, 9_000, 9_390)]
    assert plan(jobs, past=past, rules=FairShareRules(600)) == ["job-1"]
    assert plan(jobs, past=past, rules=FairShareRules(3_600)) == ["job-2"]


def test_weights_of_prefixes_and_the_default() -> None:
    rules = FairShareRules(weights={"A*": 0.125, "B": 2.0})
    assert [rules.get_weight(share) for share in ("Alpha", "B", "C")] == [0.125, 2.0, 1.0]


def test_reservation_follows_the_table_of_the_documentation() -> None:
    half, quarter = FairShareRules(reservation_percent=50), FairShareRules(reservation_percent=25)
    assert [half.compute_reserved(1_000, count) for count in (1, 2, 3)] == [500, 250, 125]
    assert [quarter.compute_reserved(10_000, count) for count in (1, 2, 3)] == [2_500, 625, 156]
    assert FairShareRules().compute_reserved(1_000, 1) == 0
    jobs = [create_job(number) for number in range(10)]
    assert len(plan(jobs, rules=half, size=8)) == 4
    # A second share makes room for itself: a quarter stays free.
    running = [create_job(number) for number in range(20, 24)]
    assert plan([*jobs, create_job(30, "B")], running, rules=half, size=8) == ["job-30", "job-0"]


def test_a_large_job_is_not_overtaken() -> None:
    jobs = [create_job(1, instances=3), create_job(2, "B")]
    running = [create_job(9, "B")]
    assert plan(jobs, running, size=3) == [], "share A is next, and its job waits for three instances"
    assert plan(jobs, running, size=4) == ["job-1"]


def test_capacity_of_each_instance_type_counts_by_itself() -> None:
    capacity = Capacity("a", {"ml.g5.xlarge": 2, TYPE: 4})
    running = [create_job(number) for number in range(4)]
    for job in running:
        capacity.reserve(job)
    waiting = [QueueJob("gpu", 9, "ml.g5.xlarge", 2, "A")]
    starts = plan_fair_share(waiting, running, (), FairShareRules(), [capacity], 10_000.0).starts
    assert [start.job.id for start in starts] == ["gpu"], "four jobs on another type leave both GPUs free"
    assert plan_fair_share([create_job(10)], running, (), FairShareRules(), [capacity], 10_000.0).starts == []


def test_jobs_that_still_run_in_a_disabled_environment_take_no_room_in_another_one() -> None:
    disabled, enabled = Capacity("a", {NUM_INSTANCES: 2}, is_enabled=False), Capacity("b", {NUM_INSTANCES: 2})
    running = [create_job(1), create_job(2)]
    for job in running:
        disabled.reserve(job)
    waiting = [create_job(number) for number in range(3, 7)]
    starts = plan_fair_share(waiting, running, (), FairShareRules(), [disabled, enabled], 10_000.0).starts
    assert [(start.job.id, start.environment) for start in starts] == [("job-3", "b"), ("job-4", "b")]


def simulate(
    shares: Mapping[str, Sequence[float]], rules: FairShareRules | None, size: int, end_s: float
) -> Counter[str]:
    """Run the jobs of several shares, all submitted at second 0 share after share, and return instance-seconds.

    Args:
        shares: The durations of the jobs of each share, in seconds.
        rules: The fair-share policy; None for a queue without a policy.
        size: Instances of the environment.
        end_s: When to stop, in seconds.
    """
    numbers, durations = itertools.count(), {}
    waiting: list[QueueJob] = []
    for share, lengths in shares.items():
        for length in lengths:
            waiting.append(create_job(next(numbers), share))
            durations[waiting[-1].id] = length
    running: dict[str, tuple[QueueJob, float]] = {}
    past: list[PastUse] = []
    ends: list[tuple[float, str]] = []
    used, now_s = Counter[str](), 0.0
    while now_s < end_s:
        capacity = Capacity("a", {NUM_INSTANCES: size})
        jobs = [job for job, _ in running.values()]
        for job in jobs:
            capacity.reserve(job)
        result = _plan(waiting, jobs, past, rules, capacity, now_s)
        for start in result.starts:
            waiting.remove(start.job)
            running[start.job.id] = start.job, now_s
            heapq.heappush(ends, (now_s + durations[start.job.id], start.job.id))
        now_s, name = heapq.heappop(ends)
        job, started_s = running.pop(name)
        past.append(PastUse(job.share, 1, started_s, now_s))
        used[job.share] += round(min(now_s, end_s) - started_s)
    return used


def _plan(
    waiting: list[QueueJob],
    jobs: list[QueueJob],
    past: list[PastUse],
    rules: FairShareRules | None,
    capacity: Capacity,
    now: float,
) -> Plan:
    if rules is None:
        return plan_fifo(waiting, [capacity])
    return plan_fair_share(waiting, jobs, past, rules, [capacity], now)


def _draw_durations(count: int, mean_s: float, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [generator.uniform(0.5, 1.5) * mean_s for _ in range(count)]


@pytest.mark.parametrize("size", [1, 3, 10])
def test_shares_of_two_teams_even_out(size: int) -> None:
    # Team A submits 400 jobs before team B submits 400, and its jobs are four times as long.
    teams = {"A": _draw_durations(400, 400, 1), "B": _draw_durations(2_000, 100, 2)}
    used = simulate(teams, FairShareRules(3_600), size, 12_000.0 / min(size, 3))
    assert 0.45 < used["A"] / used.total() < 0.55, used
    # The negative control: without a policy, team B gets nothing before team A's jobs have ended.
    assert simulate(teams, None, size, 12_000.0 / min(size, 3))["B"] == 0


@pytest.mark.parametrize(("weight", "expected"), [(0.25, 0.8), (0.5, 2 / 3), (2.0, 1 / 3)])
def test_weights_divide_the_instances_in_their_inverse_ratio(weight: float, expected: float) -> None:
    teams = {"A": _draw_durations(1_000, 60, 3), "B": _draw_durations(1_000, 60, 4)}
    used = simulate(teams, FairShareRules(600, weights={"A": weight}), 10, 4_000.0)
    assert used["A"] / used.total() == pytest.approx(expected, abs=0.04), used
