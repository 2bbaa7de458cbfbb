"""Test the estimates of time and cost with published cases.

Where a source contradicts the arithmetic, the test says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pipelines.errors import SpecError
from pipelines.planning.training_cost import (
    Cluster,
    Interruptions,
    compute_break_even_use,
    compute_cost_usd,
    compute_savings_plan_usd,
    estimate_spot_cost,
    estimate_step_of_training,
)
from pipelines.planning.training_time import count_token_flops, estimate_training_s

HOUR_S = 3600.0
A100, H100 = 312e12, 989e12
P4D, G5_2, G5, P5 = 32.77, 1.21, 1.01, 98.32
"""Rates of the published cases, USD an hour: those of EC2 in us-east-1. SageMaker's instances (ml.) cost more."""


@pytest.mark.parametrize(
    ("hours", "instances", "usd_per_h", "published_usd"),
    [
        (8, 1, P4D, 262),
        (24, 4, P4D, 3146),
        (48, 1, G5_2, 58),
        (50 * 2, 1, G5, 101),
    ],
)
def test_published_costs(hours: float, instances: int, usd_per_h: float, published_usd: float) -> None:
    """8 h of a p4d.24xlarge; four for a day; 48 h of a g5.2xlarge; 50 trials of 2 h on a g5.xlarge."""
    assert compute_cost_usd(hours, instances, usd_per_h) == pytest.approx(published_usd, abs=0.5)


def test_batch_on_spot() -> None:
    """A source has 36 USD a month for 4 h a day of a g5.xlarge on spot: that is a saving of 70 %, for 30 days.

    Such a price exists on EC2. SageMaker has no managed spot for batch transform jobs, only for trainings.
    """
    on_demand_usd = compute_cost_usd(4 * 30, 1, G5)
    assert on_demand_usd == pytest.approx(121.2)
    assert compute_savings_plan_usd(on_demand_usd, 0.7) == pytest.approx(36.36)


def test_64_p5_for_14_days() -> None:
    """64 p5.48xlarge at 98.32 for 14 days: 2.11 M USD. A source has 8.4 M, which the arithmetic contradicts.

    8.4 M would be 256 instances, or 56 days. The test keeps the contradiction visible.
    """
    cost_usd = compute_cost_usd(14 * 24, 64, P5)
    assert cost_usd == pytest.approx(2_114_273.28)
    assert 8.4e6 / cost_usd == pytest.approx(4, abs=0.03)
    assert compute_cost_usd(56 * 24, 64, P5) == pytest.approx(8.46e6, rel=0.001)


def test_20b_on_64_a100_for_3_days() -> None:
    """A source trains 20B parameters on 64 A100 for 3 days, and does not name the tokens.

    At 40 % of the peak, 3 days are 17B tokens: a fine-tuning. 20 tokens for each parameter (Hoffmann et al. 2022),
    400B, would take 70 days. 8 p4d.24xlarge cost 18,876 USD in 3 days.
    """
    tokens = 64 * A100 * 0.4 * 3 * 86_400 / count_token_flops(20e9)
    assert tokens == pytest.approx(17.25e9, rel=0.01)
    days = estimate_training_s(count_token_flops(20e9) * 400e9, A100, 64, 0.4) / 86_400
    assert days == pytest.approx(69.6, abs=0.1)
    assert compute_cost_usd(72, 8, P4D) == pytest.approx(18_875.52)


def test_step_on_several_instances() -> None:
    """7B parameters, a million tokens a step, two instances of 8 A100: 21 s at 40 %, and 14 GB over 40 GB/s."""
    cluster = Cluster(2, 8, A100, 40)
    step = estimate_step_of_training(6 * 7e9 * 1e6, cluster, 0.4, 14e9)
    assert step.computation_s == pytest.approx(21.03, abs=0.01)
    assert step.communication_s == pytest.approx(0.35)
    assert step.total_s == step.computation_s  # the backward pass hides it
    slow = estimate_step_of_training(6 * 7e9 * 1e6, Cluster(2, 8, A100, 0.5), 0.4, 14e9)
    assert slow.efficiency == pytest.approx(21.03 / (28 + 21.03 / 3), abs=0.01)
    assert estimate_step_of_training(1e15, Cluster(2, 8, A100), 0.4, 14e9).communication_s == 0
    assert estimate_step_of_training(1e15, Cluster(1, 8, A100, 40), 0.4, 14e9).communication_s == 0


def test_spot_with_interruptions() -> None:
    """24 h of work on 4 instances, each interrupted every 100 h: one interruption, and 4 % more time."""
    spot = estimate_spot_cost(24 * HOUR_S, 4, 12, Interruptions(0.01, 3000, 60, 300, 600))
    assert spot.run.interruptions == pytest.approx(1, abs=0.01)
    assert spot.run.overhead == pytest.approx(0.04, abs=0.005)
    assert spot.cost_usd == pytest.approx(spot.run.total_s / HOUR_S * 4 * 12)
    assert spot.elapsed_s == spot.run.total_s + spot.run.interruptions * 600
    often = estimate_spot_cost(24 * HOUR_S, 4, 12, Interruptions(0.5, 3000, 60, 300, 600))
    assert often.cost_usd > 2 * spot.cost_usd


def test_expected_spot_cost_is_that_of_a_simulation() -> None:
    """The cost of 400 simulated trainings, of which each second with instances is charged."""
    plan = Interruptions(0.1, 1800, 120, 300, 600)
    spot = estimate_spot_cost(12 * HOUR_S, 2, 10, plan)
    costs = []
    for seed in range(400):
        generator, clock, done = random.Random(seed), 0.0, 0.0
        interruption, is_restarting = generator.expovariate(0.2 / HOUR_S), False
        while done < 12 * HOUR_S:
            length = plan.restart_s if is_restarting else plan.interval_s + plan.save_s
            if clock + length > interruption:
                clock, is_restarting = interruption, True
                interruption += generator.expovariate(0.2 / HOUR_S)
                continue
            clock, done, is_restarting = clock + length, done + (0 if is_restarting else plan.interval_s), False
        costs.append(clock / HOUR_S * 2 * 10)
    assert sum(costs) / len(costs) == pytest.approx(spot.cost_usd, rel=0.01)


def test_savings_plan() -> None:
    assert compute_savings_plan_usd(1000, 0.3) == pytest.approx(700)
    assert compute_break_even_use(0.3) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Cluster(0, 8, A100), "instances must be a positive number, not 0."),
        (lambda: Cluster(10**7, 8, A100), "instances must be at most 1e+06, not 1e+07."),
        (lambda: Cluster(1, 8, float("inf")), "peak_flops must be a positive number, not inf."),
        (lambda: Cluster(1, 8, A100, -1), "network_gb_s must be a number of at least 0, not -1."),
        (lambda: compute_cost_usd(-1, 1, 1), "hours must be a positive number, not -1."),
        (lambda: compute_cost_usd(1, 1, 1e9), "usd_per_h must be at most 100000, not 1e+09."),
        (lambda: compute_savings_plan_usd(1, 30), "saving must be at most 1, not 30. It is a share: 30 % is 0.3."),
        (lambda: compute_break_even_use(1), "saving must be less than 1, not 1."),
        (lambda: compute_break_even_use(0), "saving must be a positive number, not 0."),
        (lambda: estimate_spot_cost(1, 1, 1, Interruptions(0, 1, 1)), "interruptions_per_h must be a positive number"),
        (lambda: estimate_spot_cost(1, 1, 1, Interruptions(60, 60, 60)), "more than one interruption for each save"),
        (lambda: estimate_spot_cost(1, 1, 1, Interruptions(1, 9, 1, 0, -1)), "wait_s must be a number of at least 0"),
        (lambda: estimate_step_of_training(1, Cluster(1, 1, H100), 40, 1), "utilization must be at most 1, not 40."),
    ],
)
def test_wrong_numbers_are_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        call()
    assert text in str(caught.value)
