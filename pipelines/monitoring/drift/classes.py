"""Measure how well a multiclass model predicts each class, and estimate it for days without labels.

The estimates use confidence-based performance estimation (CBPE, NannyML): a row belongs to each class with its
calibrated probability. Each metric but the macro AUC is a ratio of sums over rows. The standard errors are computed
from the variance between days (`day_values`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.day_values import estimate_error
from pipelines.monitoring.drift.finding import PERFORMANCE, Measure
from pipelines.monitoring.drift.performance import Performance, build_day_values, compute_auc, estimate_performance

MIN_ROWS = 100
"""Smallest number of rows of a class, counted or expected, for which its performance is computed."""


@dataclass(frozen=True)
class ClassDays:
    """The sums of a class by day, oldest day first; shape (days,), or (days, bins)."""

    name: str
    predicted: Array
    """Rows that are predicted as the class."""
    labelled: Array
    """Rows that have the class as label."""
    hits: Array
    """Rows that have the class as label, and are predicted as the class."""
    bins: Array
    """Rows in each bin of the probability of the class."""
    expected: Array
    """Expected rows that have the class as label: the sum of the calibrated probabilities."""
    expected_hits: Array
    """Sum of the calibrated probabilities over the rows that are predicted as the class."""
    squares: Array
    """Sum of the squares of the calibrated probabilities."""
    hit_squares: Array
    """Sum of the squares of the calibrated probabilities over the rows that are predicted as the class."""
    expected_bins: Array
    """Expected rows that have the class as label, in each bin."""


MetricKey = tuple[str, Measure]
"""Column and name of a metric. The column is `performance` for the whole model, `performance/CLASS` for one class."""


def measure_classes(classes: Sequence[ClassDays], alpha: float) -> dict[MetricKey, Performance]:
    """Measure the recall of each class from labels. A class with fewer than `MIN_ROWS` labels is left out."""
    recalls = {
        _name_column(class_days): _build_mean(class_days.hits, class_days.labelled, float(class_days.hits.sum()), alpha)
        for class_days in classes
    }
    return {(column, "recall"): recall for column, recall in recalls.items() if recall}


def estimate_classes(classes: Sequence[ClassDays], alpha: float) -> dict[MetricKey, Performance]:
    """Estimate accuracy and macro AUC of the model, and recall and precision of each class, without labels.

    Each standard error is that of the metric that will be measured once the labels are known, so it includes the
    randomness of these labels. `Performance.days` does not include it: `compare_metric` uses it to compare two
    estimates, and no estimate uses labels.

    A metric of a class with fewer than `MIN_ROWS` rows is left out. The accuracy is left out if all classes together
    have fewer rows; the macro AUC, if any class or all other classes together have fewer.
    """
    hits, predicted_rows, squares = (
        np.sum([getattr(class_days, name) for class_days in classes], axis=0)
        for name in ("expected_hits", "predicted", "hit_squares")
    )
    estimates: dict[MetricKey, Performance | None] = {
        (PERFORMANCE, "estimated_accuracy"): _build_mean(hits, predicted_rows, float(squares.sum()), alpha),
        (PERFORMANCE, "estimated_macro_auc"): _estimate_macro_auc(classes, alpha),
    }
    for class_days in classes:
        column, hit_squares = _name_column(class_days), float(class_days.hit_squares.sum())
        estimates[column, "estimated_recall"] = _estimate_recall(class_days, alpha)
        estimates[column, "estimated_precision"] = _build_mean(
            class_days.expected_hits, class_days.predicted, hit_squares, alpha
        )
    return {key: estimate for key, estimate in estimates.items() if estimate}


def _name_column(class_days: ClassDays) -> str:
    return f"{PERFORMANCE}/{class_days.name}"


def _build_mean(sums: Array, rows: Array, squares: float, alpha: float) -> Performance | None:
    """Build a performance that is a mean over rows; None if there are fewer than `MIN_ROWS` rows.

    Args:
        sums: sum of the values of the rows of each day, shape (days,).
        rows: number of rows of each day, shape (days,).
        squares: sum of the squared values of all rows.
        alpha: probability beyond each end of the interval.
    """
    total = float(rows.sum())
    if total < MIN_ROWS:
        return None
    variance = max(squares / total - (float(sums.sum()) / total) ** 2, 0.0)
    return _build_ratio(sums, rows, float(np.sqrt(variance / total)), alpha)


def _estimate_recall(class_days: ClassDays, alpha: float) -> Performance | None:
    total = float(class_days.expected.sum())
    if total < MIN_ROWS:
        return None
    recall, squares = float(class_days.expected_hits.sum()) / total, float(class_days.hit_squares.sum())
    # The variance of a ratio by the delta method: a row of the numerator has the value 1 - recall, other rows -recall.
    variance = squares * (1 - recall) ** 2 + (float(class_days.squares.sum()) - squares) * recall**2
    return _build_ratio(class_days.expected_hits, class_days.expected, float(np.sqrt(variance)) / total, alpha)


def _estimate_macro_auc(classes: Sequence[ClassDays], alpha: float) -> Performance | None:
    """Estimate the mean of the AUCs of each class against all others.

    Return None if fewer than `MIN_ROWS` rows are expected of a class, or of all other classes together.
    """
    if any(not MIN_ROWS <= class_days.expected.sum() <= class_days.bins.sum() - MIN_ROWS for class_days in classes):
        return None
    counts = np.stack(
        [
            np.stack([class_days.bins - class_days.expected_bins, class_days.expected_bins], axis=-1)
            for class_days in classes
        ]
    )
    total, scores = counts.sum(axis=1), np.empty(0)  # `compute_auc` does not use the scores
    leave_one_out = compute_auc(total[:, np.newaxis] - counts, scores).mean(axis=0)
    if not np.isfinite(leave_one_out).all():
        leave_one_out = np.zeros(1)  # as for a single day: no variance between days
    # The error of a mean is at most the mean of the errors.
    aucs = [
        estimate_performance(class_days.bins, _compute_bin_probabilities(class_days), alpha)["estimated_auc"]
        for class_days in classes
    ]
    row_se, min_se = (float(np.mean([getattr(auc, name) for auc in aucs])) for name in ("row_se", "se"))
    value, rows = float(compute_auc(total, scores).mean()), round(float(total[0].sum()))
    return _build_performance(value, leave_one_out, row_se, min_se, rows, alpha)


def _compute_bin_probabilities(class_days: ClassDays) -> Array:
    """Compute the mean calibrated probability of the rows in each bin; 0 for a bin without rows."""
    rows = class_days.bins.sum(axis=0)
    return np.asarray(np.divide(class_days.expected_bins.sum(axis=0), rows, out=np.zeros(len(rows)), where=rows > 0))


def _build_ratio(sums: Array, rows: Array, row_se: float, alpha: float) -> Performance:
    """Build a performance that is a share, from sums by day. Its error is at least that of independent rows."""
    total = float(rows.sum())
    value, other_rows = float(sums.sum()) / total, total - rows
    leave_one_out = np.divide(sums.sum() - sums, other_rows, out=np.full(len(sums), value), where=other_rows > 0)
    label_se = float(np.sqrt(max(value * (1 - value), 0.0) / total))
    return _build_performance(value, leave_one_out, row_se, label_se, round(total), alpha)


def _build_performance(
    value: float, leave_one_out: Array, row_se: float, min_se: float, rows: int, alpha: float
) -> Performance:
    values = build_day_values(leave_one_out, row_se)
    error = estimate_error([values])
    se = max(error.se, min_se)
    half_width = se * float(stats.t.isf(alpha, error.degrees_of_freedom))
    low, high = max(value - half_width, 0.0), min(value + half_width, 1.0)
    return Performance(value, low, high, se, rows, days=values, row_se=row_se)
