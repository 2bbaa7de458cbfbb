"""Metrics as functions of the rows' weights, which a bootstrap calls thousands of times; the sorting is done once.

Each maker takes labels (bool) and scores, and returns a function: it takes weights of shape (draws, rows), and returns
the metric of each draw, shape (draws,). With weights of 1 it equals scikit-learn's metric of that name; `ece` equals
that of `pipelines.evaluation.metrics`. In a draw without a row of one label, a metric that needs both is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.inputs import Array, validate_numbers, validate_probabilities, validate_rows
from pipelines.evaluation.statistics.sums import ALL, Column, WeightedAuc, WeightedSums, divide

WeightedMetric = Callable[[Array], Array]
Maker = Callable[[Array, Array], WeightedMetric]
BINS = 10
"""Bins of the calibration error, as in `pipelines.evaluation.metrics`."""


def auc(label: Array, score: Array) -> WeightedMetric:
    """Area under the ROC curve: the share of pairs of a 1 and a 0 in the right order, ties a half."""
    return WeightedAuc(label, score)


def pr_auc(label: Array, score: Array) -> WeightedMetric:
    """Average precision: the sum over distinct scores of the precision times the increase in recall."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    positive = label[order]

    def compute(weights: Array) -> Array:
        ordered = weights[:, order]
        predicted = np.cumsum(ordered, axis=1)[:, ends]
        true = np.cumsum(ordered * positive, axis=1)[:, ends]
        increase = np.diff(true, axis=1, prepend=0.0)
        return divide((increase * divide(true, predicted, 0.0)).sum(axis=1), true[:, -1], np.nan)

    return compute


def log_loss(label: Array, score: Array) -> WeightedMetric:
    """Mean negative log likelihood, nats; probabilities are kept the float's epsilon away from 0 and 1."""
    epsilon = float(np.finfo(np.float64).eps)
    likelihood = np.where(label, validate_probabilities(score), 1 - score)
    return _make_mean(-np.log(np.clip(likelihood, epsilon, 1 - epsilon)))


def brier(label: Array, score: Array) -> WeightedMetric:
    """Mean squared error of the probability."""
    return _make_mean((validate_probabilities(score) - label) ** 2)


def ece(label: Array, score: Array) -> WeightedMetric:
    """Expected calibration error over ten bins of equal mass (Naeini et al. 2015).

    The bins are those of the unweighted rows, and stay fixed from draw to draw.
    """
    bins = np.array_split(np.argsort(validate_probabilities(score), kind="stable"), BINS)
    gap = score - label
    columns: list[Column] = [(ALL, np.ones(len(label)))]
    columns += [(members, gap[members]) for members in bins if len(members)]
    return WeightedSums(columns, lambda rows, *gaps: divide(np.abs(gaps).sum(axis=0), rows, np.nan))


def accuracy(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Share of rows on the right side of the threshold; a score at the threshold predicts 1."""
    return _make_mean(((score >= threshold) == label).astype(np.float64))


def precision(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Share of label 1 among the rows predicted 1; 0 if no row is."""
    predicted = score >= threshold
    return _make_share(predicted & label, predicted.astype(np.float64))


def recall(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Share of rows predicted 1 among the rows of label 1."""
    return _make_share((score >= threshold) & label, label.astype(np.float64))


def f1(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Harmonic mean of precision and recall."""
    predicted = score >= threshold
    # 2 TP / (2 TP + FP + FN) = TP / ((predicted + label) / 2)
    return _make_share(predicted & label, (predicted.astype(np.float64) + label) / 2)


@dataclass(frozen=True)
class Metric:
    """A metric and its direction."""

    make: Maker
    greater_is_better: bool


METRICS: Mapping[str, Metric] = {
    "auc": Metric(auc, True),
    "pr_auc": Metric(pr_auc, True),
    "log_loss": Metric(log_loss, False),
    "brier": Metric(brier, False),
    "ece": Metric(ece, False),
    "accuracy": Metric(accuracy, True),
    "precision": Metric(precision, True),
    "recall": Metric(recall, True),
    "f1": Metric(f1, True),
}


def find_maker(metric: str | Maker) -> Maker:
    """Return the maker of the metric of that name; a maker is returned unchanged.

    A threshold other than 0.5: `functools.partial(f1, threshold=0.3)`.

    Raises:
        SpecError: no metric has this name. A retry cannot help.
    """
    if callable(metric):
        return metric
    if metric not in METRICS:
        raise SpecError(f"there is no metric {metric!r}.", f"Known: {', '.join(METRICS)}.")
    return METRICS[metric].make


def compute_metric(label: Array, score: Array, metric: str | Maker, weights: Array | None = None) -> float:
    """Compute a metric of weighted rows; without weights, each row counts once.

    Raises:
        DataError: the rows are not valid, or a weight is negative or not finite. A retry cannot help.
        SpecError: no metric has this name. A retry cannot help.
    """
    truth, (scores,) = validate_rows(label, score)
    row_weights = np.ones(len(truth)) if weights is None else validate_numbers(weights, len(truth), "weight")
    if (row_weights < 0).any():
        raise DataError("a weight is below 0.")
    return float(find_maker(metric)(truth, scores)(row_weights[np.newaxis])[0])


def _make_mean(values: Array) -> WeightedMetric:
    columns: list[Column] = [(ALL, values), (ALL, np.ones(len(values)))]
    return WeightedSums(columns, lambda total, rows: divide(total, rows, np.nan))


def _make_share(part: Array, total: Array) -> WeightedMetric:
    columns: list[Column] = [(ALL, part.astype(np.float64)), (ALL, total)]
    return WeightedSums(columns, lambda numerator, denominator: divide(numerator, denominator, 0.0))
