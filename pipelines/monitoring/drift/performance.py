"""Performance from counts of score bin x label: measured, and estimated for days without labels.

All rows of a bin count with one score. On such scores the metrics equal scikit-learn's. All broadcast over leading
axes.
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
"""From counts, shape (..., bins, 2), label 0 first, and the score of each bin, shape (bins,), to the metric."""


def auc(counts: Array, score: Array) -> Array:
    """Compute the share of pairs (label 1, label 0) in the right order; pairs in one bin count half. NaN: no pairs."""
    zeros, ones = counts[..., 0], counts[..., 1]
    below = np.cumsum(zeros, axis=-1) - zeros / 2
    pairs = zeros.sum(axis=-1) * ones.sum(axis=-1)
    return np.asarray(np.divide((ones * below).sum(axis=-1), pairs, out=np.full(pairs.shape, np.nan), where=pairs != 0))


def brier(counts: Array, score: Array) -> Array:
    """Compute the mean squared error of the probability."""
    return np.asarray((measures.shares(_flatten(counts)) * np.concatenate([score**2, (1 - score) ** 2])).sum(axis=-1))


def log_loss(counts: Array, score: Array) -> Array:
    """Compute the mean negative log likelihood, in nats; probabilities 0 and 1 are clipped by the float epsilon."""
    epsilon = float(np.finfo(np.float64).eps)
    chance = np.clip(score, epsilon, 1 - epsilon)
    return np.asarray((measures.shares(_flatten(counts)) * -np.log(np.concatenate([1 - chance, chance]))).sum(axis=-1))


def ece(counts: Array, score: Array) -> Array:
    """Compute the expected calibration error over the given bins (Naeini et al. 2015)."""
    gap = np.abs(counts[..., 1] - score * counts.sum(axis=-1)).sum(axis=-1)
    rows = counts.sum(axis=(-2, -1))
    return np.asarray(np.divide(gap, rows, out=np.zeros(rows.shape), where=rows != 0))


METRICS: Mapping[Measure, Metric] = {"auc": auc, "brier": brier, "log_loss": log_loss, "ece": ece}


def measure_performance(counts: Array, score: Array, alpha: float) -> dict[Measure, Estimate]:
    """Measure each metric with its interval; empty where only one kind of label occurs.

    The standard error is the jackknife's (Efron & Stein 1981) over days, since rows of a day are not independent.
    Without days, or where one kind of label occurs on one day only, it is over rows.

    Args:
        counts: shape (days, bins, 2) or (bins, 2).
        score: score of each bin, a probability, increasing.
        alpha: probability beyond each end of the interval.

    Raises:
        DataError: the shapes do not fit. A retry cannot help.
    """
    days = counts[np.newaxis] if counts.ndim == 2 else counts
    if days.ndim != 3 or days.shape[1:] != (len(score), 2):
        raise DataError(f"counts of shape {counts.shape} do not fit {len(score)} bins of score.")
    if (days.sum(axis=(0, 1)) < 1).any():
        return {}
    return {name: _jackknife(days, score, metric, alpha) for name, metric in METRICS.items()}


def calibrate_scores(counts: Array, score: Array) -> Array:
    """Compute the calibrated probability of label 1 in each bin by isotonic regression of counts, shape (bins, 2).

    A bin without rows keeps its score, as far as the order allows.
    """
    rows = counts.sum(axis=-1)
    rate = np.divide(counts[:, 1], rows, out=score.astype(np.float64), where=rows > 0)
    return np.asarray(isotonic_regression(rate, weights=np.maximum(rows, 1e-6)).x)


def expect_counts(histogram: Array, chance: Array) -> Array:
    """Compute the expected counts of score bin x label, shape (..., bins, 2), from calibrated scores.

    This is confidence-based performance estimation (CBPE, NannyML): a row has label 1 with its calibrated probability.

    Args:
        histogram: rows in each bin of score, shape (..., bins).
        chance: calibrated probability of each bin.
    """
    return np.stack([histogram * (1 - chance), histogram * chance], axis=-1)


def count_confusion(counts: Array, first: int) -> dict[str, float]:
    """Count the confusion matrix where bins from `first` on are predicted as 1."""
    negative, positive = counts[:first].sum(axis=0), counts[first:].sum(axis=0)
    names = ("true_negative", "false_negative", "false_positive", "true_positive")
    return dict(zip(names, map(float, (*negative, *positive)), strict=True))


def estimate_performance(histogram: Array, chance: Array, alpha: float) -> dict[Measure, Estimate]:
    """Estimate the AUC from calibrated scores, without labels; empty where no label of one kind is expected.

    The standard error is that of the AUC that the labels will show, with rows and labels both random. Where days are
    given, it includes the variance between days.

    Args:
        histogram: shape (days, bins) or (bins,).
        chance: see `calibrate_scores`.
        alpha: probability beyond each end of the interval.
    """
    days = np.atleast_2d(histogram).astype(np.float64)
    counts = expect_counts(days, chance)
    total = counts.sum(axis=0)
    if (total.sum(axis=0) < 1).any():
        return {}
    se_rows = _compute_se_over_rows(total, chance, auc)
    se_days = _compute_se_over_days(counts, chance, auc) if len(days) > 1 else 0.0
    # The variance between days contains that of their rows: the sum of both would count it twice.
    return {"estimated_auc": _estimate(total, chance, auc, max(se_rows, se_days), len(days) - 1, alpha)}


def find_losses(
    now: Mapping[Measure, Estimate], then: Mapping[Measure, Estimate], days: int = 0
) -> tuple[Finding, ...]:
    """Compare performance with the champion's on its holdout; each loss has the one-sided p-value of no loss.

    Args:
        now: performance of the window; an estimated AUC is compared with the measured one.
        then: performance of the holdout.
        days: number of days, where the standard errors are over days: the test is then Student's t with days - 1
            degrees of freedom; 0: a normal.
    """
    return tuple(
        _make_finding(name, estimate, then["auc" if name == "estimated_auc" else name], days)
        for name, estimate in now.items()
    )


def _make_finding(name: Measure, now: Estimate, then: Estimate, days: int) -> Finding:
    higher_is_better = name in {"auc", "estimated_auc"}
    loss = then.value - now.value if higher_is_better else now.value - then.value
    se = float(np.hypot(now.se, then.se))
    if not se:
        return Finding("performance", name, max(loss, 0.0), float(loss <= 0))
    p_value = stats.t.sf(loss / se, days - 1) if days > 1 else stats.norm.sf(loss / se)
    return Finding("performance", name, max(loss, 0.0), float(p_value))


def _jackknife(days: Array, score: Array, metric: Metric, alpha: float) -> Estimate:
    se_days = _compute_se_over_days(days, score, metric) if len(days) > 1 else float("nan")
    total = days.sum(axis=0)
    if np.isfinite(se_days):
        return _estimate(total, score, metric, se_days, len(days) - 1, alpha)
    return _estimate(total, score, metric, _compute_se_over_rows(total, score, metric), 0, alpha)


def _estimate(total: Array, score: Array, metric: Metric, se: float, freedom: int, alpha: float) -> Estimate:
    value = float(metric(total, score))
    half = se * float(stats.t.isf(alpha, freedom) if freedom else stats.norm.isf(alpha))
    most = np.inf if metric is log_loss else 1.0
    return Estimate(value, max(value - half, 0.0), min(value + half, most), se, round(float(total.sum())))


def _compute_se_over_days(days: Array, score: Array, metric: Metric) -> float:
    left = metric(days.sum(axis=0) - days, score)
    return float(np.sqrt((len(days) - 1) / len(days) * ((left - left.mean()) ** 2).sum()))


def _compute_se_over_rows(total: Array, score: Array, metric: Metric) -> float:
    """Compute the jackknife standard error over rows; rows of one cell are equal. 0.5 where it is undefined."""
    cells = np.argwhere(total > 0)
    row = np.zeros((len(cells), *total.shape))
    row[np.arange(len(cells)), cells[:, 0], cells[:, 1]] = 1.0
    left, counts, rows = metric(total - row, score), total[total > 0], float(total.sum())
    if not np.isfinite(left).all():
        return 0.5
    mean = (counts * left).sum() / rows
    return float(np.sqrt((rows - 1) / rows * (counts * (left - mean) ** 2).sum()))


def _flatten(counts: Array) -> Array:
    """Put the bins of both labels one after the other."""
    return np.concatenate([counts[..., 0], counts[..., 1]], axis=-1)
