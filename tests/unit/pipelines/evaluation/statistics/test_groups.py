"""Test intervals by groups against scipy's transform, formulas of others, and a simulation of days."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import fft, stats

from pipelines.errors import DataError
from pipelines.evaluation.statistics import bootstrap, delong, groups
from pipelines.evaluation.statistics.sums import WeightedMetric
from pipelines.evaluation.statistics.weighted import BINARY_METRICS, build_brier_metric

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)
LABEL = (RANDOM.random(700) < 0.3).astype(int)
CANDIDATE, CHAMPION = (1 / (1 + np.exp(1 - RANDOM.normal(LABEL, 1))) for _ in range(2))


def build_days(number: int, rows_per_day: int, shared: float) -> tuple[Array, Array, Array, Array]:
    """Simulate labels, two scores and the day of each row; `shared` is the standard deviation between days."""
    random = np.random.default_rng(9)
    day = np.repeat(np.arange(number), rows_per_day)
    label = (random.random(number * rows_per_day) < 0.4).astype(int)
    candidate = np.clip(
        0.4 + random.normal(0, shared, number)[day] + random.normal(0, 0.05, number * rows_per_day), 0.01, 0.99
    )
    return label, candidate, np.full(number * rows_per_day, 0.4), day


@pytest.mark.parametrize(("days", "coefficients"), [(10, 2), (14, 2), (28, 4), (60, 6), (365, 20)])
def test_the_error_is_that_of_the_first_cosine_coefficients(days: int, coefficients: int) -> None:
    """Lazarus et al. 2018: the first 0.4 T ** (2 / 3) coefficients (0.41 in equation (11)), and t quantiles."""
    label, candidate, champion, day = build_days(days, 50, 0.1)
    estimate = bootstrap.estimate_difference(label, candidate, champion, "brier", alpha=0.05, seed=1, groups=day)
    mean_of_day = ((candidate - label) ** 2 - (champion - label) ** 2).reshape(days, 50).mean(axis=1)
    cosines = fft.dct(mean_of_day, norm="ortho")[1 : coefficients + 1]
    assert estimate.value == pytest.approx(mean_of_day.mean())
    assert estimate.se == pytest.approx(math.sqrt((cosines**2).mean() / days), rel=1e-9)
    assert estimate.high - estimate.value == pytest.approx(stats.t.isf(0.05, coefficients) * estimate.se, rel=1e-9)
    assert (estimate.groups, estimate.degrees_of_freedom) == (days, coefficients)
    names = np.array([f"day {number:03}" for number in day])
    assert (
        bootstrap.estimate_difference(label, candidate, champion, "brier", alpha=0.05, seed=1, groups=names) == estimate
    )


def test_days_that_are_not_related_in_time_give_the_error_of_a_mean() -> None:
    label, candidate, _, day = build_days(60, 50, 0.1)
    estimate = groups.estimate_by_groups(
        [build_brier_metric(label == 1, candidate)], day, 0.05, is_autocorrelated=False
    )
    mean_of_day = ((candidate - label) ** 2).reshape(60, 50).mean(axis=1)
    assert estimate.se == pytest.approx(stats.sem(mean_of_day), rel=1e-9)
    interval = stats.ttest_1samp(mean_of_day, 0).confidence_interval(0.9)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_the_auc_of_unequal_days_has_the_error_of_obuchowski() -> None:
    """Obuchowski 1997, Biometrics 53, equations (4) to (7): the variance of the AUC of clustered data."""
    random = np.random.default_rng(3)
    day = np.sort(random.integers(0, 60, 3_000))
    label = (random.random(3_000) < 0.3).astype(int)
    score = random.normal(label * (1 + 0.5 * random.normal(size=60)[day]) + random.normal(size=60)[day])
    ones, zeros = score[label == 1], score[label == 0]
    wins = (zeros[None, :] < ones[:, None]).astype(float)
    auc, sums = wins.mean(), np.zeros((2, 60))
    np.add.at(sums[0], day[label == 1], wins.mean(axis=1) - auc)
    np.add.at(sums[1], day[label == 0], wins.mean(axis=0) - auc)
    terms = sums[0] / len(ones) + sums[1] / len(zeros)
    truth = label == 1
    estimate = groups.estimate_by_groups(
        [BINARY_METRICS["auc"].build(truth, score)], day, 0.05, is_autocorrelated=False
    )
    assert estimate.value == pytest.approx(auc)
    assert estimate.se == pytest.approx(math.sqrt(60 / 59 * (terms**2).sum()), rel=0.03)
    assert estimate.se > 1.4 * delong.estimate_auc(label, score, 0.05).se


@pytest.mark.parametrize("metric", BINARY_METRICS)
def test_sums_by_group_equal_those_by_row(metric: str) -> None:
    day = np.arange(700) % 23

    def make_without_groups(label: Array, score: Array) -> WeightedMetric:
        weighted_metric = BINARY_METRICS[metric].build(label, score)
        # A plain function hides that the metric can sum groups, so it is computed from rows.
        return weighted_metric.__call__

    arguments: dict[str, Any] = {"alpha": 0.05, "seed": 4, "groups": day}
    candidate, champion = (np.round(score, 2) for score in (CANDIDATE, CHAMPION))
    by_group = bootstrap.estimate_difference(LABEL, candidate, champion, metric, **arguments)
    by_row = bootstrap.estimate_difference(LABEL, candidate, champion, make_without_groups, **arguments)
    for field in ("value", "low", "high", "se"):
        assert getattr(by_group, field) == pytest.approx(getattr(by_row, field), abs=1e-12)


def test_the_interval_is_right_with_more_groups_than_the_table_allows() -> None:
    label = (RANDOM.random(3_000) < 0.3).astype(int)
    models = [RANDOM.normal(label, 1), RANDOM.normal(label, 1)]
    truth = label == 1
    metrics = [BINARY_METRICS["auc"].build(truth, score) for score in models]
    estimate = groups.estimate_by_groups(metrics, np.arange(3_000) // 2, 0.05, is_autocorrelated=False)
    assert estimate.se == pytest.approx(delong.estimate_auc_difference(label, models[0], models[1], 0.05).se, rel=0.1)


@pytest.mark.parametrize(("days", "correlation"), [(10, 0.0), (14, 0.0), (28, 0.0), (14, 0.3), (28, 0.5), (60, 0.5)])
def test_a_bound_at_the_truth_passes_in_alpha_of_the_cases(days: int, correlation: float) -> None:
    """A percentile bootstrap of the days passes in 8 to 17 % of these cases: in 17 % where days are correlated."""
    random, trials = np.random.default_rng(days), 4_000
    steps = random.normal(size=(trials, days))
    values = [steps[:, 0]]
    for step in steps.T[1:]:
        values.append(correlation * values[-1] + math.sqrt(1 - correlation**2) * step)
    effects = np.stack(values) * math.sqrt(0.5) + random.normal(size=(days, trials)) * math.sqrt(0.5)
    se = np.linalg.norm(groups.compute_errors(effects), axis=0)
    passes = int((effects.mean(axis=0) > stats.t.isf(0.05, groups.count_degrees_of_freedom(days)) * se).sum())
    assert passes / trials < 0.05 + (0.01 if correlation == 0 else 0.02)
    assert passes / trials > 0.03
    if correlation:  # negative control: days that are taken as independent pass too often
        t_values = effects.mean(axis=0) / stats.sem(effects, axis=0)
        assert (t_values > stats.t.isf(0.05, days - 1)).mean() > 0.07


def test_a_group_without_which_nothing_can_be_measured_leaves_everything_open() -> None:
    day = np.where(LABEL == 1, 0, np.arange(700) % 20)
    estimate = bootstrap.estimate_metric(LABEL, CANDIDATE, "auc", alpha=0.05, seed=1, groups=day)
    assert (estimate.low, estimate.high, estimate.se) == (0, 1, math.inf)
    difference = bootstrap.estimate_difference(LABEL, CANDIDATE, CHAMPION, "auc", alpha=0.05, seed=1, groups=day)
    assert (difference.low, difference.high) == (-1, 1)


def test_separated_days_have_the_interval_of_as_many_trials() -> None:
    day = np.arange(700) // 50
    estimate = bootstrap.estimate_metric(LABEL, LABEL * 1.0, "auc", alpha=0.05, seed=1, groups=day)
    assert (estimate.value, estimate.low, estimate.high) == (1, pytest.approx(0.05 ** (1 / 14)), 1)


def test_an_interval_near_the_edge_stays_in_range_and_is_wider() -> None:
    score, day = LABEL * 0.5 + 0.25, np.arange(700) // 50
    score[np.flatnonzero(LABEL == 1)[:3]] = 0.2
    estimate = bootstrap.estimate_metric(LABEL, score, "auc", alpha=0.05, seed=1, groups=day)
    half_width = stats.t.isf(0.05, estimate.degrees_of_freedom) * estimate.se
    assert estimate.value + half_width > 1 == estimate.high
    assert 0.4 < estimate.low < estimate.value - half_width


def test_equal_models_have_no_difference() -> None:
    day = np.arange(700) // 50
    for metric in BINARY_METRICS:
        estimate = bootstrap.estimate_difference(
            LABEL, CANDIDATE, CANDIDATE.copy(), metric, alpha=0.05, seed=1, groups=day
        )
        assert (estimate.value, estimate.low, estimate.high) == (0, 0, 0)


def test_refuses_groups_that_are_none() -> None:
    with pytest.raises(DataError, match="one group"):
        groups.number_groups(np.zeros(5), 5)
