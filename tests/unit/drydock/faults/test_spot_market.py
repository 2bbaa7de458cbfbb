"""Test the spot market: which jobs are interrupted when, and which get instances."""

import math
from collections.abc import Callable

import pytest

from drydock.faults.spot_market import Interruption, Schedule, SpotMarket, SpotPolicy
from drydock.jobs.states import Phase
from drydock.jobs.training.job import TrainingJob

Make = Callable[..., TrainingJob]


@pytest.fixture
def spot(make_job: Make) -> TrainingJob:
    """Return a spot job in its first run."""
    job = make_job(EnableManagedSpotTraining=True)
    job.enter_phase(Phase.TRAINING)
    return job


def test_ordered_interruption_happens_once_when_it_is_due(spot: TrainingJob, job: TrainingJob) -> None:
    market, order = SpotMarket(SpotPolicy()), Interruption(10, 600, 2)
    market.request_interruption(spot, order)
    market.request_interruption(job, order)
    assert market.take_due_interruption(spot, 9.9) is None
    assert market.take_due_interruption(spot, 10.0) == order
    assert market.take_due_interruption(spot, 11.0) is None
    assert market.take_due_interruption(job, 11.0) is None, "an on-demand job is not interrupted"
    assert not market.has_capacity(spot) and market.has_capacity(job)


def test_latest_capacity_rule_counts(make_job: Make, spot: TrainingJob, job: TrainingJob) -> None:
    market = SpotMarket(SpotPolicy(without_capacity=["ml.m5.*"]))
    resources = {"InstanceType": "ml.c5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
    other = make_job(EnableManagedSpotTraining=True, ResourceConfig=resources)
    assert not market.has_capacity(spot) and market.has_capacity(other) and market.has_capacity(job)
    market.set_capacity("*", available=True)
    assert market.has_capacity(spot)
    market.set_capacity("*", available=False)
    assert not market.has_capacity(spot) and not market.has_capacity(other) and market.has_capacity(job)
    market.set_capacity("*", available=False, duration_s=0)
    assert not market.has_capacity(spot) and market.has_capacity(other), "a rule that has ended has no effect"
    assert [rule["instance_type"] for rule in market.describe()["capacity"]] == ["ml.m5.*"]


def test_schedule_interrupts_the_listed_runs(make_job: Make) -> None:
    market = SpotMarket(SpotPolicy(interruptions=[Schedule("flights-*", [5, -1]), Schedule("*", [0])]))
    job = make_job(TrainingJobName="flights-1", EnableManagedSpotTraining=True)
    seen = []
    for _ in range(3):
        job.enter_phase(Phase.TRAINING)
        seen.append(market.take_due_interruption(job, 1_000) is not None)
        job.enter_phase(Phase.INTERRUPTED)
    assert seen == [True, False, False]


def draw_interruptions(seed: int, name: str, make_job: Make) -> list[float]:
    """Return the seconds after which the runs of a job are interrupted."""
    market = SpotMarket(SpotPolicy(seed=seed, interruption_probability=0.5))
    job, seconds = make_job(TrainingJobName=name, EnableManagedSpotTraining=True), []
    for _ in range(200):
        job.record.transitions.append(job.record.transitions[0].__class__(Phase.TRAINING, job.created_at, ""))
        order = market.take_due_interruption(job, math.inf)
        assert order is not None
        seconds.append(order.after_s)
    return seconds


def test_same_seed_interrupts_at_the_same_seconds(make_job: Make) -> None:
    first = draw_interruptions(1, "a", make_job)
    assert first == draw_interruptions(1, "a", make_job)
    assert first != draw_interruptions(2, "a", make_job) and first != draw_interruptions(1, "b", make_job)
    within_a_minute = sum(seconds <= 60 for seconds in first)
    assert 70 <= within_a_minute <= 130, "about half of the runs are interrupted within a minute"
