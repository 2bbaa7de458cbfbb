"""Test the calibration error's interval: against normal errors drawn one by one, and how often it misses the truth."""

from typing import Any

import numpy as np
import pytest

from pipelines.errors import DataError
from pipelines.evaluation.metrics import compute_metrics
from pipelines.evaluation.statistics.calibration import estimate_ece

Array = np.ndarray[Any, Any]
DAYS, ROWS = 14, 200


def simulate_days(seed: int, shift: float, weather: float = 0.5) -> tuple[Array, Array, Array]:
    """Simulate labels, scores and days. The score is right up to `shift`, in log odds, on a day of average weather."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(DAYS), ROWS)
    signal = random.normal(size=len(day))
    odds = -1.2 + 0.8 * signal
    rate = 1 / (1 + np.exp(-odds - shift - weather * random.normal(size=DAYS)[day]))
    return (random.random(len(day)) < rate).astype(float), 1 / (1 + np.exp(-odds)), day


def compute_plain(label: Array, score: Array) -> float:
    """Compute the calibration error without a correction of its bias."""
    return compute_metrics(label, score, 0.2)["ece"]


@pytest.mark.parametrize("has_groups", [False, True])
def test_the_value_is_the_plain_error_less_the_bias_of_normal_errors(has_groups: bool) -> None:
    """Kumar et al. 2019, section 5: draw the bins' gaps around the measured ones, and subtract what this adds."""
    label, score, day = simulate_days(1, 0.1)
    bins = np.array_split(np.argsort(score, kind="stable"), 10)
    gap, rows = score - label, len(label)
    gaps = np.array([gap[members].sum() / rows for members in bins])
    if has_groups:
        days = np.array([[gap[members][day[members] == n].sum() for members in bins] for n in range(DAYS)]) / ROWS
        times = (np.arange(DAYS) + 0.5) / DAYS
        cosines = [np.sqrt(2 / DAYS) * np.cos(np.pi * number * times) @ days for number in (1, 2)]
        se = np.sqrt((np.array(cosines) ** 2).mean(axis=0) / DAYS)
    else:
        se = np.array([gap[members].std() * np.sqrt(len(members)) / rows for members in bins])
    drawn_mean = np.abs(np.random.default_rng(2).normal(gaps, se, (200_000, 10))).sum(axis=1).mean()
    estimate = estimate_ece(label, score, alpha=0.05, groups=day if has_groups else None)
    plain = compute_plain(label, score)
    assert estimate.value == pytest.approx(plain - (drawn_mean - plain), abs=2e-4)
    assert estimate.low <= estimate.value < plain < estimate.high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "cases"),
    [(0.0, 100), (0.4, 100), *(pytest.param(shift, 300, marks=pytest.mark.soak) for shift in (0.0, 0.15, 0.4))],
)
def test_the_interval_misses_in_alpha_of_the_cases(shift: float, cases: int) -> None:
    label, score, _ = simulate_days(1, shift)
    # The truth, averaged over the weather by quadrature.
    nodes, weights = np.polynomial.hermite.hermgauss(20)
    odds = np.log(score / (1 - score))
    rate = (1 / (1 + np.exp(-odds[:, None] - shift - 0.5 * np.sqrt(2) * nodes))) @ weights / np.sqrt(np.pi)
    truth = sum(abs((score - rate)[rows].sum()) for rows in np.array_split(np.argsort(score), 10)) / len(label)
    estimates, plain_errors = [], []
    for seed in range(cases):
        label, score, day = simulate_days(seed, shift)
        estimates.append(estimate_ece(label, score, alpha=0.05, groups=day))
        plain_errors.append(compute_plain(label, score))
    assert sum(estimate.high < truth for estimate in estimates) / cases < 0.08
    assert sum(estimate.low > truth for estimate in estimates) / cases < 0.09
    bias = np.mean([estimate.value for estimate in estimates]) - truth
    assert bias < 0.7 * (np.mean(plain_errors) - truth) + 0.001
    # Negative control: the value without its interval misses.
    assert sum(estimate.value < truth for estimate in estimates) / cases > 0.1


def test_a_constant_that_is_right_has_no_error() -> None:
    label = np.tile([0.0, 0.0, 0.0, 1.0], 500)
    estimate = estimate_ece(label, np.full(2_000, 0.25), alpha=0.05)
    assert (estimate.value, estimate.low) == (0, 0)
    assert 0 < estimate.high < 0.1


def test_refuses_scores_that_are_no_probabilities() -> None:
    with pytest.raises(DataError, match="not a probability"):
        estimate_ece(np.array([0, 1]), np.array([0.2, 1.2]), alpha=0.05)
