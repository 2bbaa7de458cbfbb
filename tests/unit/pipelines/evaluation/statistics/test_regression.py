"""Test the metrics of a regression against scikit-learn, and their intervals on simulated days."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipelines.errors import DataError
from pipelines.evaluation.statistics import bootstrap
from pipelines.evaluation.statistics.weighted import REGRESSION_METRICS, compute_metric

RANDOM = np.random.default_rng(5)
LABEL = RANDOM.normal(40.0, 12.0, size=601)
SCORE = LABEL + RANDOM.normal(1.5, 6.0, size=601)
EXPECTED = {
    "rmse": sklearn_metrics.root_mean_squared_error,
    "mae": sklearn_metrics.mean_absolute_error,
    "r2": sklearn_metrics.r2_score,
    "bias": lambda label, score, sample_weight=None: np.average(score - label, weights=sample_weight),
}


def test_every_metric_is_compared() -> None:
    assert REGRESSION_METRICS.keys() == EXPECTED.keys() | {"median_ae"}


@pytest.mark.parametrize("metric", EXPECTED)
def test_weighted_metrics_equal_those_of_scikit_learn(metric: str) -> None:
    weights = RANDOM.integers(0, 4, size=len(LABEL)).astype(float)
    assert compute_metric(LABEL, SCORE, metric) == pytest.approx(EXPECTED[metric](LABEL, SCORE))
    expected = EXPECTED[metric](LABEL, SCORE, sample_weight=weights)
    assert compute_metric(LABEL, SCORE, metric, weights) == pytest.approx(expected)


@pytest.mark.parametrize("rows", [1, 2, 600, 601])
def test_the_median_error_of_repeated_rows_equals_that_of_weighted_rows(rows: int) -> None:
    label, score = np.append(LABEL[:rows], 0.0), np.append(SCORE[:rows], 0.0)
    weights = RANDOM.integers(1, 4, size=rows + 1).astype(float)
    repeated = np.repeat(np.arange(rows + 1), weights.astype(int))
    assert compute_metric(label, score, "median_ae") == pytest.approx(np.median(np.abs(score - label)))
    expected = sklearn_metrics.median_absolute_error(label[repeated], score[repeated])
    assert compute_metric(label, score, "median_ae", weights) == pytest.approx(expected)


def test_a_large_mean_does_not_change_r2() -> None:
    assert compute_metric(LABEL + 1e9, SCORE + 1e9, "r2") == pytest.approx(compute_metric(LABEL, SCORE, "r2"), abs=1e-6)


@pytest.mark.parametrize("metric", REGRESSION_METRICS)
@pytest.mark.parametrize("has_groups", [False, True])
def test_intervals_hold_the_value_and_shrink_with_the_rows(metric: str, has_groups: bool) -> None:
    label = np.tile(LABEL, 4)
    score = label + np.random.default_rng(7).normal(1.5, 6.0, size=len(label))
    groups = np.arange(len(label)) // 40 if has_groups else None
    widths = []
    for rows in (len(label) // 4, len(label)):
        options = {"alpha": 0.05, "seed": 3, "draws": 400, "groups": None if groups is None else groups[:rows]}
        estimate = bootstrap.estimate_metric(label[:rows], score[:rows], metric, **options)
        assert estimate.low < estimate.value < estimate.high
        widths.append(estimate.high - estimate.low)
    assert widths[1] < widths[0]


def test_a_bag_of_little_bootstraps_agrees_with_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(11)
    label = random.normal(size=15_000)
    score = label + random.normal(size=len(label))
    estimates = []
    for limit in (20_000, 5_000):
        monkeypatch.setattr(bootstrap, "MAX_FULL_ROWS", limit)
        estimates.append(bootstrap.estimate_metric(label, score, "rmse", alpha=0.05, seed=3, draws=400))
    full, little = (estimate.high - estimate.low for estimate in estimates)
    assert little == pytest.approx(full, rel=0.25)


def test_a_better_model_is_better_in_each_metric_with_a_direction() -> None:
    worse = SCORE + np.where(np.arange(len(SCORE)) % 2, 20.0, -20.0)
    for name, metric in REGRESSION_METRICS.items():
        if metric.greater_is_better is not None:
            gain = compute_metric(LABEL, SCORE, name) - compute_metric(LABEL, worse, name)
            assert (gain > 0) is metric.greater_is_better, name


@pytest.mark.parametrize(
    ("label", "score", "problem"),
    [
        ([1.0, np.nan], [1.0, 2.0], "the label is not a finite number for 1 of 2 rows"),
        ([1.0, np.inf], [1.0, 2.0], "the label is not a finite number for 1 of 2 rows"),
        ([1.0, 2.0], [1.0, np.inf], "the score is not a finite number for 1 of 2 rows"),
        ([2.0, 2.0], [1.0, 2.0], "all 2 rows have the label 2"),
        ([], [], "there are no rows"),
    ],
)
def test_refuses_rows_that_cannot_be_measured(label: list[float], score: list[float], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        compute_metric(np.array(label), np.array(score), "rmse")
