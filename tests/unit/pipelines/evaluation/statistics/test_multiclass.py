"""Test the metrics of multiclass models against scikit-learn, also with weights, and their intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pipelines.errors import DataError
from pipelines.evaluation.statistics.bootstrap import estimate_difference, estimate_metric
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.weighted import MULTICLASS_METRICS, compute_metric, list_metrics

CLASSES = ("early", "late", "on time")
ROWS = 900


def simulate(strength: float, seed: int = 5) -> tuple[Array, Array]:
    """Simulate labels of three classes and probabilities that know more of them, the greater the strength."""
    random = np.random.default_rng(seed)
    label = random.choice(3, size=ROWS, p=(0.6, 0.1, 0.3))
    logits = random.normal(size=(ROWS, 3)) + strength * np.eye(3)[label]
    return label, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


LABEL, SCORE = simulate(1.0)
DAYS = np.repeat(np.arange(30), ROWS // 30)
EXPECTED: dict[str, Callable[..., float]] = {
    "log_loss": sklearn_metrics.log_loss,
    "macro_auc": lambda label, score, **weights: sklearn_metrics.roc_auc_score(
        label, score, multi_class="ovr", average="macro", **weights
    ),
    "accuracy": lambda label, score, **weights: sklearn_metrics.accuracy_score(label, score.argmax(1), **weights),
    "balanced_accuracy": lambda label, score, **weights: sklearn_metrics.balanced_accuracy_score(
        label, score.argmax(1), **weights
    ),
    "macro_f1": lambda label, score, **weights: sklearn_metrics.f1_score(
        label, score.argmax(1), average="macro", **weights
    ),
}


def test_each_metric_is_compared() -> None:
    assert MULTICLASS_METRICS.keys() == EXPECTED.keys() | {"ece"}


@pytest.mark.parametrize("name", EXPECTED)
def test_equals_scikit_learn(name: str) -> None:
    metric = MULTICLASS_METRICS[name]
    assert compute_metric(LABEL, SCORE, metric) == pytest.approx(EXPECTED[name](LABEL, SCORE))
    weights = np.random.default_rng(1).integers(0, 4, size=ROWS).astype(float)
    expected_value = EXPECTED[name](LABEL, SCORE, sample_weight=weights)
    assert compute_metric(LABEL, SCORE, metric, weights) == pytest.approx(expected_value)
    _, better_score = simulate(3.0)
    is_greater = compute_metric(LABEL, better_score, metric) > compute_metric(LABEL, SCORE, metric)
    assert is_greater is metric.greater_is_better


def test_the_recall_of_a_class_equals_scikit_learn() -> None:
    recalls = sklearn_metrics.recall_score(LABEL, SCORE.argmax(1), average=None)
    metrics = list_metrics("multiclass", CLASSES)
    values = [compute_metric(LABEL, SCORE, metrics[f"recall/{name}"]) for name in CLASSES]
    assert values == pytest.approx(list(recalls))


def test_the_calibration_error_is_that_of_the_predicted_class() -> None:
    ece = MULTICLASS_METRICS["ece"]
    is_right, confidence = SCORE.argmax(1) == LABEL, SCORE.max(axis=1)
    assert compute_metric(LABEL, SCORE, ece) == pytest.approx(compute_metric(is_right, confidence, "ece"))


@pytest.mark.parametrize("name", MULTICLASS_METRICS)
def test_the_jackknife_by_days_equals_the_metric_without_each_day(name: str) -> None:
    """The sums by day give what the rows give."""
    metric = MULTICLASS_METRICS[name]
    estimate = estimate_metric(LABEL, SCORE, metric, alpha=0.05, seed=1, groups=DAYS)
    assert estimate.value == pytest.approx(compute_metric(LABEL, SCORE, metric))
    assert estimate.low < estimate.value < estimate.high
    values = [compute_metric(LABEL[day != DAYS], SCORE[day != DAYS], metric) for day in (0, 29)]
    if name != "ece":  # its bins are those of all rows
        weights = (np.array([[0], [29]]) != DAYS).astype(float)
        assert metric.build(LABEL, SCORE)(weights) == pytest.approx(values)


def test_a_class_on_one_day_alone_leaves_the_mean_a_number() -> None:
    label = LABEL.copy()
    label[(label == 1) & (DAYS != 7)] = 0
    assert (label == 1).any()
    for name in ("balanced_accuracy", "macro_f1", "macro_auc"):
        estimate = estimate_metric(label, SCORE, MULTICLASS_METRICS[name], alpha=0.05, seed=1, groups=DAYS)
        assert np.isfinite([estimate.low, estimate.high]).all(), name


def test_a_model_does_not_differ_from_itself_and_is_worse_than_a_better_one() -> None:
    _, better_score = simulate(3.0)
    metric = MULTICLASS_METRICS["macro_auc"]
    same = estimate_difference(LABEL, SCORE, SCORE, metric, alpha=0.05, seed=1, groups=DAYS)
    worse = estimate_difference(LABEL, SCORE, better_score, metric, alpha=0.05, seed=1, groups=DAYS)
    assert (same.value, same.high) == (0.0, 0.0)
    assert worse.high < 0
    drawn = estimate_metric(LABEL, SCORE, metric, alpha=0.05, seed=1, draws=200)
    assert drawn.low < drawn.value < drawn.high


@pytest.mark.parametrize(
    ("label", "score", "problem"),
    [
        (np.array([], int), np.ones((0, 3)), "there are no rows"),
        (np.array([0, -1]), np.ones((2, 3)), "a label is not the index of a class"),
        (np.array([0.0, 1.0]), np.ones((2, 3)), "a label is not the index of a class"),
        (np.array([1, 1]), np.ones((2, 3)), "all 2 rows have the same class"),
        (np.array([0, 3]), np.ones((2, 3)), "2 labels of 4 classes, but scores of"),
        (np.array([0, 1]), np.ones(2), "but scores of"),
        (np.array([0, 1]), np.array([[0.5, np.nan], [0.5, 0.5]]), "not a finite number for 1 of 2 rows"),
    ],
)
def test_refuses(label: Array, score: Array, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        compute_metric(label, score, MULTICLASS_METRICS["accuracy"])
