"""Metrics as functions of the rows' weights: what a bootstrap calls thousands of times, with the sorting done once.

Each maker takes labels (bool) and scores, and returns a function of weights of shape (draws, rows) that returns the
metric of each draw, shape (draws,). With unit weights it is scikit-learn's metric of that name; `ece` is that of
`pipelines.evaluation.metrics`. A metric that a draw does not define (no row of a label) is NaN there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.inputs import Array, chances, labelled, numbers
from pipelines.evaluation.statistics.sums import ALL, Column, Pairs, Sums, ratio

Weighted = Callable[[Array], Array]
Maker = Callable[[Array, Array], Weighted]
BINS = 10
"""Of the calibration error, as in `pipelines.evaluation.metrics`."""


def auc(label: Array, score: Array) -> Weighted:
    """Area under the ROC curve: the share of pairs of a 1 and a 0 in the right order, ties a half."""
    return Pairs(label, score)


def pr_auc(label: Array, score: Array) -> Weighted:
    """Average precision: precision at each distinct score times the recall that it adds."""
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    hits = label[order]

    def of(weights: Array) -> Array:
        ordered = weights[:, order]
        seen = np.cumsum(ordered, axis=1)[:, ends]
        found = np.cumsum(ordered * hits, axis=1)[:, ends]
        added = np.diff(found, axis=1, prepend=0.0)
        return ratio((added * ratio(found, seen, 0.0)).sum(axis=1), found[:, -1], np.nan)

    return of


def log_loss(label: Array, score: Array) -> Weighted:
    """Mean negative log likelihood, nats; probabilities of 0 and 1 are moved by the float's epsilon."""
    epsilon = float(np.finfo(np.float64).eps)
    chance = np.where(label, chances(score), 1 - score)
    return _mean(-np.log(np.clip(chance, epsilon, 1 - epsilon)))


def brier(label: Array, score: Array) -> Weighted:
    """Mean squared error of the probability."""
    return _mean((chances(score) - label) ** 2)


def ece(label: Array, score: Array) -> Weighted:
    """Expected calibration error over ten bins of equal mass (Naeini et al. 2015).

    The bins are those of the unweighted rows, whatever the weights: they are fixed while rows are drawn.
    """
    bins = [one for one in np.array_split(np.argsort(chances(score), kind="stable"), BINS) if len(one)]
    gap = score - label
    columns: list[Column] = [(ALL, np.ones(len(label))), *((members, gap[members]) for members in bins)]
    return Sums(columns, lambda rows, *gaps: ratio(np.abs(gaps).sum(axis=0), rows, np.nan))


def accuracy(label: Array, score: Array, threshold: float = 0.5) -> Weighted:
    """Share of rows on the right side of the threshold; at it is 1."""
    return _mean(((score >= threshold) == label).astype(np.float64))


def precision(label: Array, score: Array, threshold: float = 0.5) -> Weighted:
    """Share of 1 among the rows called 1; 0 where none is."""
    called = score >= threshold
    return _share(called & label, called.astype(np.float64))


def recall(label: Array, score: Array, threshold: float = 0.5) -> Weighted:
    """Share of the rows of label 1 that are called so."""
    return _share((score >= threshold) & label, label.astype(np.float64))


def f1(label: Array, score: Array, threshold: float = 0.5) -> Weighted:
    """Harmonic mean of precision and recall."""
    called = score >= threshold
    # 2 TP / (2 TP + FP + FN): the called and the true, each counted a half.
    return _share(called & label, (called.astype(np.float64) + label) / 2)


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


def maker(metric: str | Maker) -> Maker:
    """The maker of a metric's name; a caller's own as it is (a threshold: `functools.partial(f1, threshold=0.3)`).

    Raises:
        SpecError: no metric has this name.
    """
    if callable(metric):
        return metric
    if metric not in METRICS:
        raise SpecError(f"there is no metric {metric!r}.", f"Known: {', '.join(METRICS)}.")
    return METRICS[metric].make


def value(label: Array, score: Array, metric: str | Maker, weights: Array | None = None) -> float:
    """The metric of the rows, each with its weight; without weights, each counts one.

    Raises:
        DataError: see `labelled`; or the weights are not finite, or below 0.
    """
    truth, (scores,) = labelled(label, score)
    row = np.ones(len(truth)) if weights is None else numbers(weights, len(truth), "weight")
    if (row < 0).any():
        raise DataError("a weight is below 0.")
    return float(maker(metric)(truth, scores)(row[np.newaxis])[0])


def _mean(of_row: Array) -> Weighted:
    return Sums([(ALL, of_row), (ALL, np.ones(len(of_row)))], lambda total, rows: ratio(total, rows, np.nan))


def _share(part: Array, whole: Array) -> Weighted:
    return Sums([(ALL, part.astype(np.float64)), (ALL, whole)], lambda some, of: ratio(some, of, 0.0))
