"""Measure performance from counts of score bin x label, and estimate it for days without labels.

All rows of a bin have the score of the bin. For such scores the metrics equal scikit-learn's. All metrics broadcast
over leading axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats
from scipy.optimize import isotonic_regression

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.monitoring.drift import measures
from pipelines.monitoring.drift.counts import Array
from pipelines.monitoring.drift.finding import Finding, Measure

Metric = Callable[[Array, Array], Array]
"""Computes a metric from counts, shape (..., bins, 2), label 0 first, and the score of each bin, shape (bins,)."""


def compute_auc(counts: Array, scores: Array) -> Array:
    """Compute the share of pairs (label 1, label 0) in the right order; a pair in one bin is half. NaN: no pairs."""
    zeros, ones = counts[..., 0], counts[..., 1]
    below = np.cumsum(zeros, axis=-1) - zeros / 2
    pairs = zeros.sum(axis=-1) * ones.sum(axis=-1)
    return np.asarray(np.divide((ones * below).sum(axis=-1), pairs, out=np.full(pairs.shape, np.nan), where=pairs != 0))


def compute_brier(counts: Array, scores: Array) -> Array:
    """Compute the mean squared error of the probability."""
    return np.asarray(
        (measures.compute_shares(_flatten(counts)) * np.concatenate([scores**2, (1 - scores) ** 2])).sum(axis=-1)
    )


def compute_log_loss(counts: Array, scores: Array) -> Array:
    """Compute the mean negative log likelihood, in nats; probabilities 0 and 1 are clipped by the float epsilon."""
    epsilon = float(np.finfo(np.float64).eps)
    clipped_scores = np.clip(scores, epsilon, 1 - epsilon)
    return np.asarray(
        (measures.compute_shares(_flatten(counts)) * -np.log(np.concatenate([1 - clipped_scores, clipped_scores]))).sum(
            axis=-1
        )
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


def measure_performance(counts: Array, scores: Array, alpha: float) -> dict[Measure, Estimate]:
    """Measure each metric with its interval. Empty where all labels are the same.

    The standard error is the jackknife's (Efron & Stein 1981) over days, since rows of a day are not independent.
    It is over rows instead where there are no days, or where all rows with one of the labels are of one day.

    Args:
        counts: shape (days, bins, 2) or (bins, 2).
        scores: score of each bin, a probability, increasing; shape (bins,).
        alpha: probability beyond each end of the interval.

    Raises:
        DataError: the shapes do not fit. A retry cannot help.
    """
    days = counts[np.newaxis] if counts.ndim == 2 else counts
    if days.ndim != 3 or days.shape[1:] != (len(scores), 2):
        raise DataError(f"counts of shape {counts.shape} do not fit {len(scores)} bins of score.")
    if (days.sum(axis=(0, 1)) < 1).any():
        return {}
    return {name: _estimate_by_jackknife(days, scores, metric, alpha) for name, metric in METRICS.items()}


def calibrate_scores(counts: Array, scores: Array) -> Array:
    """Compute the calibrated probability of label 1 in each bin by isotonic regression of counts, shape (bins, 2).

    A bin without rows keeps its score, as far as the order allows.
    """
    rows = counts.sum(axis=-1)
    rate = np.divide(counts[:, 1], rows, out=scores.astype(np.float64), where=rows > 0)
    return np.asarray(isotonic_regression(rate, weights=np.maximum(rows, 1e-6)).x)


def compute_expected_counts(histogram: Array, probabilities: Array) -> Array:
    """Compute the expected counts of score bin x label, shape (..., bins, 2), from calibrated scores.

    This is confidence-based performance estimation (CBPE, NannyML): a row has label 1 with its calibrated probability.

    Args:
        histogram: rows in each bin of scores, shape (..., bins).
        probabilities: calibrated probability of each bin, shape (bins,).
    """
    return np.stack([histogram * (1 - probabilities), histogram * probabilities], axis=-1)


def count_confusion(counts: Array, first_positive_bin: int) -> dict[str, float]:
    """Count the confusion matrix where the bins from `first_positive_bin` on are predicted as 1."""
    negative, positive = counts[:first_positive_bin].sum(axis=0), counts[first_positive_bin:].sum(axis=0)
    names = ("true_negative", "false_negative", "false_positive", "true_positive")
    return dict(zip(names, map(float, (*negative, *positive)), strict=True))


def estimate_performance(histogram: Array, probabilities: Array, alpha: float) -> dict[Measure, Estimate]:
    """Estimate the AUC from calibrated scores, without labels. Empty where less than one row of a label is expected.

    The standard error is that of the AUC that will be measured once the labels are known: rows and labels are both
    random. Where days are given, it includes the variance between days.

    Args:
        histogram: shape (days, bins) or (bins,).
        probabilities: calibrated probability of each bin (`calibrate_scores`), shape (bins,).
        alpha: probability beyond each end of the interval.
    """
    days = np.atleast_2d(histogram).astype(np.float64)
    counts = compute_expected_counts(days, probabilities)
    total = counts.sum(axis=0)
    if (total.sum(axis=0) < 1).any():
        return {}
    se_rows = _compute_se_over_rows(total, probabilities, compute_auc)
    se_days = _compute_se_over_days(counts, probabilities, compute_auc) if len(days) > 1 else 0.0
    # The variance between days contains the variance of their rows: a sum would count the latter twice.
    return {
        "estimated_auc": _build_estimate(total, probabilities, compute_auc, max(se_rows, se_days), len(days) - 1, alpha)
    }


def find_losses(
    window: Mapping[Measure, Estimate], holdout: Mapping[Measure, Estimate], days: int = 0
) -> tuple[Finding, ...]:
    """Compare the performance with the champion's on its holdout: one finding, with a one-sided p-value, per metric.

    Args:
        window: performance of the window; an estimated AUC is compared with the measured one of the holdout.
        holdout: performance of the holdout.
        days: number of days of the window. With 2 or more, the test is Student's t with days - 1 degrees of freedom;
            with fewer, it is normal.
    """
    return tuple(
        _build_loss_finding(name, estimate, holdout["auc" if name == "estimated_auc" else name], days)
        for name, estimate in window.items()
    )


def _build_loss_finding(name: Measure, window: Estimate, holdout: Estimate, days: int) -> Finding:
    higher_is_better = name in {"auc", "estimated_auc"}
    loss = holdout.value - window.value if higher_is_better else window.value - holdout.value
    se = float(np.hypot(window.se, holdout.se))
    if not se:
        return Finding("performance", name, max(loss, 0.0), float(loss <= 0))
    p_value = stats.t.sf(loss / se, days - 1) if days > 1 else stats.norm.sf(loss / se)
    return Finding("performance", name, max(loss, 0.0), float(p_value))


def _estimate_by_jackknife(days: Array, scores: Array, metric: Metric, alpha: float) -> Estimate:
    se_days = _compute_se_over_days(days, scores, metric) if len(days) > 1 else float("nan")
    total = days.sum(axis=0)
    if np.isfinite(se_days):
        return _build_estimate(total, scores, metric, se_days, len(days) - 1, alpha)
    return _build_estimate(total, scores, metric, _compute_se_over_rows(total, scores, metric), 0, alpha)


def _build_estimate(total: Array, scores: Array, metric: Metric, se: float, freedom: int, alpha: float) -> Estimate:
    value = float(metric(total, scores))
    half_width = se * float(stats.t.isf(alpha, freedom) if freedom else stats.norm.isf(alpha))
    highest = np.inf if metric is compute_log_loss else 1.0
    return Estimate(
        value, max(value - half_width, 0.0), min(value + half_width, highest), se, round(float(total.sum()))
    )


def _compute_se_over_days(days: Array, scores: Array, metric: Metric) -> float:
    leave_one_out = metric(days.sum(axis=0) - days, scores)
    return float(np.sqrt((len(days) - 1) / len(days) * ((leave_one_out - leave_one_out.mean()) ** 2).sum()))


def _compute_se_over_rows(total: Array, scores: Array, metric: Metric) -> float:
    """Compute the jackknife standard error over rows: each row of a cell has the same effect. 0.5 where undefined."""
    cells = np.argwhere(total > 0)
    removed_rows = np.zeros((len(cells), *total.shape))
    removed_rows[np.arange(len(cells)), cells[:, 0], cells[:, 1]] = 1.0
    leave_one_out, counts, rows = metric(total - removed_rows, scores), total[total > 0], float(total.sum())
    if not np.isfinite(leave_one_out).all():
        return 0.5
    mean = (counts * leave_one_out).sum() / rows
    return float(np.sqrt((rows - 1) / rows * (counts * (leave_one_out - mean) ** 2).sum()))


def _flatten(counts: Array) -> Array:
    """Put the bins of both labels one after the other."""
    return np.concatenate([counts[..., 0], counts[..., 1]], axis=-1)
