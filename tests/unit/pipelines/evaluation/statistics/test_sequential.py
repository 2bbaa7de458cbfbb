"""Test the intervals that are valid at every look."""

import math

import numpy as np
import pytest
from scipy import stats

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.sequential import (
    DailySums,
    compute_width_factor,
    estimate_difference,
    estimate_rows,
)


def sum_by_day(values: np.ndarray, days: np.ndarray, count: int) -> DailySums:
    return DailySums(*(np.bincount(days, weights, count) for weights in (np.ones(len(values)), values, values**2)))


def test_the_difference_and_its_error_are_those_of_two_samples() -> None:
    random = np.random.default_rng(1)
    samples, days = [random.normal(mean, 1, 4000) for mean in (0.0, 0.3)], np.arange(4000) % 20
    difference = estimate_difference([sum_by_day(values, days, 20) for values in samples], 0.05)
    assert difference.value == pytest.approx(samples[1].mean() - samples[0].mean())
    # Welch's standard error, or a greater one by days
    welch_se = math.sqrt(sum(values.var(ddof=1) / len(values) for values in samples))
    assert welch_se <= difference.se + 1e-12 < 2 * welch_se
    assert difference.low < 0.3 < difference.high


def test_days_that_differ_widen_the_interval() -> None:
    random = np.random.default_rng(2)
    days = np.repeat(np.arange(20), 200)
    noise = random.normal(0, 1, len(days))
    changes = random.normal(0, 1, 20)[days]
    equal_days, other_days = (estimate_difference([sum_by_day(v, days, 20)], 0.05) for v in (noise, noise + changes))
    assert other_days.se > 5 * equal_days.se


@pytest.mark.parametrize(("progress", "alpha"), [(0.01, 0.05), (1.0, 0.05), (30.0, 0.01)])
def test_the_factor_is_that_of_the_paper(progress: float, alpha: float) -> None:
    # Waudby-Smith et al. (2024), theorem 2.2 and equation (59), written for a time t and its optimum t*
    optimum, rows = 1000, 1000 * progress
    rho_squared = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / optimum
    width = math.sqrt(
        2 * (rows * rho_squared + 1) / (rows**2 * rho_squared) * math.log(math.sqrt(rows * rho_squared + 1) / alpha)
    )
    assert compute_width_factor(progress, alpha) == pytest.approx(width * math.sqrt(rows))


@pytest.mark.slow
@pytest.mark.parametrize("tests", [150, pytest.param(400, marks=pytest.mark.soak)])
def test_looking_every_day_does_not_add_false_discoveries(tests: int) -> None:
    random, looks = np.random.default_rng(3), 60
    sequential, once = 0, 0
    for _ in range(tests):
        # two samples without a difference, 50 rows of each on a day
        values = random.normal(0, 1, (2, looks, 50))
        sums = [DailySums(np.full(looks, 50.0), rows.sum(axis=1), (rows**2).sum(axis=1)) for rows in values]
        differences = [estimate_difference([item.select_first(n) for item in sums], 0.05) for n in range(14, looks + 1)]
        sequential += any(not item.low <= 0 <= item.high for item in differences)
        once += any(abs(item.value) > stats.norm.ppf(0.975) * item.se for item in differences)
    assert sequential / tests <= 0.05
    assert once / tests > 0.1, "intervals for one look must fail here, or the test shows nothing"


def test_the_planned_rows_find_the_effect() -> None:
    rows = estimate_rows(variance=1.0, effect=0.2, alpha=0.05, power=0.8)
    assert 1500 < rows < 2 * 2 * 15.7 / 0.2**2, "more than a test for one look needs (785), but less than twice as many"
    random = np.random.default_rng(4)
    found = 0
    for _ in range(300):
        values = random.normal([[0.0], [0.2]], 1, (2, rows // 2))
        samples = [sum_by_day(row, np.arange(rows // 2) % 60, 60) for row in values]
        difference = estimate_difference(samples, 0.05, planned_rows=rows)
        found += difference.low > 0
    assert 0.5 < found / 300 < 0.9, "less than 0.8, because days as units widen the interval"


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(SpecError, match="alpha is 1"):
        compute_width_factor(1, 1.0)
    with pytest.raises(SpecError, match="effect is inf"):
        estimate_rows(variance=1.0, effect=float("inf"), alpha=0.05, power=0.8)
    with pytest.raises(SpecError, match="effect is 0"):
        estimate_rows(1, 0, 0.05, 0.8)
    empty = DailySums(*np.zeros((3, 2)))
    with pytest.raises(DataError, match="no rows to compare"):
        estimate_difference([empty, empty], 0.05)
