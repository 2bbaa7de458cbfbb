"""Test the weighted metrics against scikit-learn."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipelines.errors import DataError, SpecError
from pipelines.evaluation import metrics
from pipelines.evaluation.statistics import weighted
from pipelines.evaluation.statistics.weighted import BINARY_METRICS, compute_metric

RANDOM = np.random.default_rng(6)
ROWS = 900
LABEL = (RANDOM.random(ROWS) < 0.3).astype(int)
SCORE = 1 / (1 + np.exp(1 - RANDOM.normal(LABEL)))
SCORES = {
    "distinct": SCORE,
    "ties": np.round(SCORE, 1),
    "certain": np.where(SCORE > 0.6, 1.0, SCORE),
    "constant": np.full(ROWS, 0.3),
}
WEIGHTS = RANDOM.integers(0, 4, ROWS).astype(float)

Metric = Callable[..., float]


def apply_threshold(metric: Metric) -> Metric:
    return lambda label, score, **options: metric(label, score >= 0.5, **options)


EXPECTED: dict[str, Metric] = {
    "auc": sklearn_metrics.roc_auc_score,
    "pr_auc": sklearn_metrics.average_precision_score,
    "log_loss": sklearn_metrics.log_loss,
    "brier": sklearn_metrics.brier_score_loss,
    "accuracy": apply_threshold(sklearn_metrics.accuracy_score),
    "precision": apply_threshold(partial(sklearn_metrics.precision_score, zero_division=0)),
    "recall": apply_threshold(sklearn_metrics.recall_score),
    "f1": apply_threshold(sklearn_metrics.f1_score),
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("metric", EXPECTED)
def test_each_metric_equals_scikit_learn(metric: str, score: np.ndarray) -> None:
    assert compute_metric(LABEL, score, metric) == pytest.approx(EXPECTED[metric](LABEL, score), abs=1e-10)
    expected = EXPECTED[metric](LABEL, score, sample_weight=WEIGHTS)
    assert compute_metric(LABEL, score, metric, WEIGHTS) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_ece_equals_that_of_the_evaluation(score: np.ndarray) -> None:
    assert compute_metric(LABEL, score, "ece") == pytest.approx(
        metrics.compute_metrics(LABEL, score, 0.3)["ece"], abs=1e-10
    )


def test_every_metric_is_tested() -> None:
    assert BINARY_METRICS.keys() == EXPECTED.keys() | {"ece"}


@pytest.mark.parametrize("metric", BINARY_METRICS)
def test_a_better_score_has_a_better_metric(metric: str) -> None:
    better_value, worse_value = (
        compute_metric(LABEL, np.where(LABEL, 0.9, 0.05), metric),
        compute_metric(LABEL, np.where(LABEL, 0.2, 0.7), metric),
    )
    assert (better_value > worse_value) is BINARY_METRICS[metric].greater_is_better


@pytest.mark.parametrize("metric", [metric for metric in BINARY_METRICS if metric != "ece"])
def test_a_weight_counts_as_copies_of_a_row(metric: str) -> None:
    copies = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))
    assert compute_metric(LABEL, SCORE, metric, WEIGHTS) == pytest.approx(
        compute_metric(LABEL[copies], SCORE[copies], metric), abs=1e-12
    )
    assert compute_metric(LABEL, SCORE, metric, WEIGHTS * 7) == pytest.approx(
        compute_metric(LABEL, SCORE, metric, WEIGHTS), abs=1e-12
    )


@pytest.mark.parametrize("metric", BINARY_METRICS)
def test_a_batch_of_draws_equals_single_draws(metric: str) -> None:
    draws = RANDOM.integers(0, 3, (4, ROWS)).astype(float)
    values = BINARY_METRICS[metric].build(LABEL == 1, SCORES["ties"])(draws)
    assert values.shape == (4,)
    assert values.tolist() == pytest.approx(
        [compute_metric(LABEL, SCORES["ties"], metric, draw) for draw in draws], abs=1e-12
    )


def test_accepts_another_threshold() -> None:
    value = compute_metric(LABEL, SCORE, partial(weighted.build_f1_metric, threshold=0.3))
    assert value == pytest.approx(sklearn_metrics.f1_score(LABEL, SCORE >= 0.3), abs=1e-12)
    assert value != compute_metric(LABEL, SCORE, "f1")


def test_calibration_bins_do_not_depend_on_the_weights() -> None:
    heavy = np.where(LABEL, 1e-9, 1.0)
    assert compute_metric(LABEL, np.full(ROWS, 0.5), "ece", heavy) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("metric", ["auc", "pr_auc"])
def test_a_draw_without_one_label_is_nan(metric: str) -> None:
    assert math.isnan(compute_metric(LABEL, SCORE, metric, 1.0 - LABEL))


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.full(ROWS, math.nan), "weight is not a finite number"), (-np.ones(ROWS), "below 0"), (np.ones(3), "of shape")],
)
def test_refuses_invalid_weights(weights: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compute_metric(LABEL, SCORE, "auc", weights)


@pytest.mark.parametrize("metric", ["log_loss", "brier", "ece"])
def test_refuses_scores_that_are_no_probabilities(metric: str) -> None:
    with pytest.raises(DataError, match="not a probability for 1 of"):
        compute_metric(LABEL, np.append(SCORE[1:], 1.1), metric)


def test_refuses_an_unknown_metric() -> None:
    with pytest.raises(SpecError, match="AUC"):
        compute_metric(LABEL, SCORE, "AUC")
