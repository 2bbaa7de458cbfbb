"""Measure performance from counts of rows by score bin and label, and estimate it for days without labels.

Each row of a bin gets the score of the bin. For such scores the AUC, the Brier score and the log loss equal
scikit-learn's. All metrics broadcast over leading axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.optimize import isotonic_regression

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring.drift import distances
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.day_values import DayValues, MeanError, estimate_error
from pipelines.monitoring.drift.finding import PERFORMANCE, Finding, Measure

Metric = Callable[[Array, Array], Array]
"""Computes a metric from counts, shape (..., bins, 2), label 0 first, and the score of each bin, shape (bins,)."""


def compute_auc(counts: Array, scores: Array) -> Array:
    """Compute the share of pairs (label 1, label 0) in the right order; NaN if there is no pair.

    A pair within one bin counts as one half. The order of the bins is that of the scores, so `scores` is not used.
    """
    zeros, ones = counts[..., 0], counts[..., 1]
    zeros_below = np.cumsum(zeros, axis=-1) - zeros / 2
    pairs = zeros.sum(axis=-1) * ones.sum(axis=-1)
    return np.asarray(
        np.divide((ones * zeros_below).sum(axis=-1), pairs, out=np.full(pairs.shape, np.nan), where=pairs != 0)
    )


def compute_brier(counts: Array, scores: Array) -> Array:
    """Compute the mean squared error of the probability."""
    return np.asarray(
        (distances.compute_shares(_flatten(counts)) * np.concatenate([scores**2, (1 - scores) ** 2])).sum(axis=-1)
    )


def compute_log_loss(counts: Array, scores: Array) -> Array:
    """Compute the mean negative log likelihood, in nats; probabilities 0 and 1 are clipped by the float epsilon."""
    epsilon = float(np.finfo(np.float64).eps)
    clipped_scores = np.clip(scores, epsilon, 1 - epsilon)
    return np.asarray(
        (
            distances.compute_shares(_flatten(counts)) * -np.log(np.concatenate([1 - clipped_scores, clipped_scores]))
        ).sum(axis=-1)
    )


def compute_ece(counts: Array, scores: Array) -> Array:
    """Compute the expected calibration error over the given bins (Naeini et al. 2015)."""
    gap = np.abs(counts[..., 1] - scores * counts.sum(axis=-1)).sum(axis=-1)
    rows = counts.sum(axis=(-2, -1))
    return np.asarray(np.divide(gap, rows, out=np.zeros(rows.shape), where=rows != 0))


METRICS: Mapping[Measure, Metric] = {
    "auc": compute_auc,
    "brier": compute_brier,
    "log_loss": compute_log_loss,
    "ece": compute_ece,
}
HIGHER_IS_BETTER = {
    *("auc", "estimated_auc", "estimated_accuracy", "estimated_macro_auc"),
    *("recall", "estimated_recall", "estimated_precision"),
}
"""Measures for which a higher value is better; for all others, a lower value is."""
RELATIVE_MEASURES = {"mae", "estimated_mae", "estimated_rmse"}
"""Measures whose effect is a share of the value on the holdout."""


@dataclass(frozen=True, kw_only=True)
class Performance(Estimate):
    """A metric of a sample of days, with its interval, and with the values of the days for `compare_metrics`."""

    days: DayValues | None
    """The values of the days; None if the metric is NaN when one of the days is left out. Then, rows are treated as
    independent."""
    row_se: float
    """Standard error if all rows were independent."""
    values_by_length: tuple[float, ...] = ()
    """For each n from 1 to the number of days: the mean of the metric over all sequences of n consecutive days. Only
    for the ECE, because chance makes the ECE larger if there are fewer days. Empty for other metrics."""


def measure_performance(
    counts: Array, scores: Array, alpha: float, metrics: Mapping[Measure, Metric] = METRICS
) -> dict[Measure, Performance]:
    """Measure each metric with its interval. Empty if there are no rows, or if all labels are the same.

    The standard error is computed from the variance between days, because the rows of a day are not independent, and a
    day is correlated with the day before (`day_values`). The value of a day is its pseudo-value of the jackknife (Efron
    & Stein 1981). If there are no days, rows are treated as independent; for the AUC, also if all rows of one label are
    in one day.

    Args:
        counts: shape (days, bins, 2), oldest day first, or (bins, 2).
        scores: score of each bin, a probability, increasing; shape (bins,).
        alpha: probability beyond each end of the interval.
        metrics: the metrics to measure.

    Raises:
        DataError: the shapes do not fit. A retry cannot help.
    """
    days = counts[np.newaxis] if counts.ndim == 2 else counts
    if days.ndim != 3 or days.shape[1:] != (len(scores), 2):
        raise DataError(f"counts of shape {counts.shape} do not fit {len(scores)} bins of score.")
    if (days.sum(axis=(0, 1)) < 1).any():
        return {}
    return {name: _measure_metric(days, scores, metric, alpha) for name, metric in metrics.items()}


def calibrate_scores(counts: Array, scores: Array) -> Array:
    """Compute the calibrated probability of label 1 in each bin by isotonic regression of counts, shape (bins, 2).

    A bin without rows keeps its score, unless the probabilities would then decrease from bin to bin.
    """
    rows = counts.sum(axis=-1)
    rate = np.divide(counts[:, 1], rows, out=scores.astype(np.float64), where=rows > 0)
    return np.asarray(isotonic_regression(rate, weights=np.maximum(rows, 1e-6)).x)


def estimate_performance(histogram: Array, probabilities: Array, alpha: float) -> dict[Measure, Performance]:
    """Estimate the AUC from calibrated scores, without labels. Empty if less than one row of a label is expected.

    The standard error is that of the AUC that will be measured once the labels are known: rows and labels are both
    random. If days are given, the standard error includes the variance between days. `Performance.days`, with which
    `compare_metrics` compares two estimates, depends on the scores alone, because neither estimate uses labels.

    Args:
        histogram: shape (days, bins), oldest day first, or (bins,).
        probabilities: calibrated probability of each bin (`calibrate_scores`), shape (bins,).
        alpha: probability beyond each end of the interval.
    """
    days = np.atleast_2d(histogram).astype(np.float64)
    counts = _compute_expected_counts(days, probabilities)
    total = counts.sum(axis=0)
    if (total.sum(axis=0) < 1).any():
        return {}
    bin_rows = days.sum(axis=0)
    row_se = _compute_se_over_rows(
        total,
        probabilities,
        compute_auc,
        bin_rows[bin_rows > 0],
        _compute_expected_counts(np.eye(len(bin_rows)), probabilities)[bin_rows > 0],
    )
    se_with_labels = _compute_se_over_labelled_rows(total, probabilities, compute_auc)
    values = _compute_day_values(counts, probabilities, compute_auc, row_se)
    error = estimate_error([values]) if values else MeanError(se=0.0, degrees_of_freedom=np.inf)
    # The variance between days contains the variance of their rows: a sum would count the latter twice.
    error = MeanError(max(error.se, se_with_labels), error.degrees_of_freedom)
    return {"estimated_auc": _build_performance(total, probabilities, compute_auc, error, alpha, values, row_se)}


def compare_metrics(
    window: Mapping[Measure, Performance], holdout: Mapping[Measure, Performance]
) -> tuple[Finding, ...]:
    """Compare each metric of the window with that of the champion's holdout: one finding, with a one-sided p-value.

    The standard error of the difference is estimated from the days of both samples (`day_values`), and the test is
    Student's t. If one of the samples has no values of days, rows are treated as independent, and the test is normal.

    Args:
        window: performance of the window.
        holdout: performance of the holdout, with all metrics of the window. An estimated AUC must be compared with an
            estimate by the same calibrated probabilities: a measured AUC also varies with the labels.
    """
    return tuple(compare_metric(PERFORMANCE, name, estimate, holdout[name]) for name, estimate in window.items())


def compare_metric(column: str, name: Measure, window: Performance, holdout: Performance) -> Finding:
    """Compare one metric of the window with that of the holdout, as `compare_metrics` does for all metrics."""
    value, reference = _match_days(window, holdout)
    loss = reference - value if name in HIGHER_IS_BETTER else value - reference
    error = _estimate_error_of_difference(window, holdout)
    # Without an error, a loss is certain (p-value 0), or there is none (p-value 1).
    p_value = float(stats.t.sf(loss / error.se, error.degrees_of_freedom)) if error.se else float(loss <= 0)
    # An error of a regression has the unit of the label, so its effect is relative.
    effect = loss / reference if name in RELATIVE_MEASURES and reference else loss
    return Finding(column, name, max(effect, 0.0), p_value)


def _match_days(window: Performance, holdout: Performance) -> tuple[float, float]:
    """Return both values. If a value depends on the number of days, use as many days as the shorter sample has."""
    day_count = min(len(window.values_by_length), len(holdout.values_by_length))
    if not day_count:
        return window.value, holdout.value
    return window.values_by_length[day_count - 1], holdout.values_by_length[day_count - 1]


def _estimate_error_of_difference(window: Performance, holdout: Performance) -> MeanError:
    samples = [estimate.days for estimate in (window, holdout) if estimate.days]
    if len(samples) == 2:
        return estimate_error(samples)
    return MeanError(float(np.hypot(window.row_se, holdout.row_se)), np.inf)


def _measure_metric(days: Array, scores: Array, metric: Metric, alpha: float) -> Performance:
    total = days.sum(axis=0)
    row_se = _compute_se_over_labelled_rows(total, scores, metric)
    values = _compute_day_values(days, scores, metric, row_se)
    error = estimate_error([values]) if values else MeanError(row_se, np.inf)
    performance = _build_performance(total, scores, metric, error, alpha, values, row_se)
    if metric is not compute_ece:
        return performance
    return replace(performance, values_by_length=tuple(_measure_by_length(days, scores, metric)))


def _measure_by_length(days: Array, scores: Array, metric: Metric) -> Iterator[float]:
    """Yield, for each n from 1 to the number of days, the mean of a metric over all sequences of n consecutive days."""
    sums = np.concatenate([np.zeros((1, *days.shape[1:])), np.cumsum(days, axis=0)])
    for length in range(1, len(days) + 1):
        yield float(metric(sums[length:] - sums[:-length], scores).mean())


def _build_performance(
    total: Array,
    scores: Array,
    metric: Metric,
    error: MeanError,
    alpha: float,
    day_values: DayValues | None,
    row_se: float,
) -> Performance:
    value = float(metric(total, scores))
    half_width = error.se * float(stats.t.isf(alpha, error.degrees_of_freedom))
    highest_value = np.inf if metric is compute_log_loss else 1.0
    low, high = max(value - half_width, 0.0), min(value + half_width, highest_value)
    return Performance(value, low, high, error.se, round(float(total.sum())), days=day_values, row_se=row_se)


def _compute_day_values(days: Array, scores: Array, metric: Metric, row_se: float) -> DayValues | None:
    """Compute the jackknife's pseudo-values of the days; None if the metric is NaN without one of the days."""
    leave_one_out = metric(days.sum(axis=0) - days, scores) if len(days) > 1 else np.zeros(1)
    return build_day_values(leave_one_out, row_se) if np.isfinite(leave_one_out).all() else None


def build_day_values(leave_one_out: Array, row_se: float) -> DayValues:
    """Build the jackknife's pseudo-values of the days.

    Args:
        leave_one_out: the metric of all days but one, for each day; shape (days,). One number for a single day.
        row_se: standard error of the metric if all rows were independent.
    """
    day_count = len(leave_one_out)
    return DayValues((day_count - 1) * (leave_one_out.mean() - leave_one_out), day_count * row_se**2)


def _compute_se_over_labelled_rows(total: Array, scores: Array, metric: Metric) -> float:
    """Compute the standard error over rows, each of which is in one bin and has one label."""
    cells = np.argwhere(total > 0)
    rows = np.zeros((len(cells), *total.shape))
    rows[np.arange(len(cells)), cells[:, 0], cells[:, 1]] = 1.0
    return _compute_se_over_rows(total, scores, metric, total[total > 0], rows)


def _compute_se_over_rows(total: Array, scores: Array, metric: Metric, row_counts: Array, rows: Array) -> float:
    """Compute the jackknife standard error over rows; 0.5 if the metric is NaN without one of the rows.

    0.5 is the largest standard deviation that a number from 0 to 1 can have.

    Args:
        total: counts of all rows, shape (bins, 2).
        scores: score of each bin.
        metric: the metric.
        row_counts: number of rows of each kind, shape (kinds,). The rows of a kind are equal.
        rows: counts of one row of each kind, shape (kinds, bins, 2).
    """
    leave_one_out, all_rows = metric(total - rows, scores), float(row_counts.sum())
    if not np.isfinite(leave_one_out).all():
        return 0.5
    mean = (row_counts * leave_one_out).sum() / all_rows
    return float(np.sqrt((all_rows - 1) / all_rows * (row_counts * (leave_one_out - mean) ** 2).sum()))


def _compute_expected_counts(histogram: Array, probabilities: Array) -> Array:
    """Compute the expected counts of score bin x label, shape (..., bins, 2), from calibrated scores.

    This is confidence-based performance estimation (CBPE, NannyML): a row has label 1 with its calibrated probability.

    Args:
        histogram: rows in each bin of scores, shape (..., bins).
        probabilities: calibrated probability of each bin, shape (bins,).
    """
    return np.stack([histogram * (1 - probabilities), histogram * probabilities], axis=-1)


def _flatten(counts: Array) -> Array:
    """Join the counts of both labels along the last axis: first label 0, then label 1."""
    return np.concatenate([counts[..., 0], counts[..., 1]], axis=-1)
