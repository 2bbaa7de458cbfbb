"""How well scores tell labels, from counts of score bin x label: measured, and estimated while labels are not there.

A bin's rows all count with one score. The metrics of these are scikit-learn's; all broadcast over leading axes.
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
"""Of counts, shape (..., bins, 2), label 0 then 1, and each bin's score."""


def auc(counts: Array, score: Array) -> Array:
    """Share of pairs of a 1 and a 0 in the right order, those of one bin a half; NaN without both labels."""
    zeros, ones = counts[..., 0], counts[..., 1]
    below = np.cumsum(zeros, axis=-1) - zeros / 2
    pairs = zeros.sum(axis=-1) * ones.sum(axis=-1)
    return np.asarray(np.divide((ones * below).sum(axis=-1), pairs, out=np.full(pairs.shape, np.nan), where=pairs != 0))


def brier(counts: Array, score: Array) -> Array:
    """Mean squared error of the probability."""
    return np.asarray((measures.shares(_flat(counts)) * np.concatenate([score**2, (1 - score) ** 2])).sum(axis=-1))


def log_loss(counts: Array, score: Array) -> Array:
    """Mean negative log likelihood, nats; probabilities of 0 and 1 are moved by the float's epsilon."""
    epsilon = float(np.finfo(np.float64).eps)
    chance = np.clip(score, epsilon, 1 - epsilon)
    return np.asarray((measures.shares(_flat(counts)) * -np.log(np.concatenate([1 - chance, chance]))).sum(axis=-1))


def ece(counts: Array, score: Array) -> Array:
    """Expected calibration error over the bins as they are (Naeini et al. 2015)."""
    gap = np.abs(counts[..., 1] - score * counts.sum(axis=-1)).sum(axis=-1)
    rows = counts.sum(axis=(-2, -1))
    return np.asarray(np.divide(gap, rows, out=np.zeros(rows.shape), where=rows != 0))


METRICS: Mapping[Measure, Metric] = {"auc": auc, "brier": brier, "log_loss": log_loss, "ece": ece}


def measured(counts: Array, score: Array, alpha: float) -> dict[Measure, Estimate]:
    """Each metric with its interval; empty where a label is missing, and nothing can be measured.

    Its standard error is the jackknife's (Efron & Stein 1981), by leaving out each day, for rows of a day are not
    independent; where there are no days, or a label is on one of them only, by leaving out each row.

    Args:
        counts: shape (days, bins, 2) or (bins, 2).
        score: of each bin, a probability, increasing.
        alpha: of each end of the interval.

    Raises:
        DataError: the shapes do not fit.
    """
    days = counts[np.newaxis] if counts.ndim == 2 else counts
    if days.ndim != 3 or days.shape[1:] != (len(score), 2):
        raise DataError(f"counts of shape {counts.shape} do not fit {len(score)} bins of score.")
    if (days.sum(axis=(0, 1)) < 1).any():
        return {}
    return {name: _jackknife(days, score, metric, alpha) for name, metric in METRICS.items()}


def calibrated(counts: Array, score: Array) -> Array:
    """The chance of a 1 in each bin, as the holdout's counts, shape (bins, 2), have it: the isotonic regression.

    Bins without rows keep their score, as far as the order allows.
    """
    rows = counts.sum(axis=-1)
    rate = np.divide(counts[:, 1], rows, out=score.astype(np.float64), where=rows > 0)
    return np.asarray(isotonic_regression(rate, weights=np.maximum(rows, 1e-6)).x)


def expected(histogram: Array, chance: Array) -> Array:
    """Counts of score bin x label that calibrated scores lead one to expect, shape (..., bins, 2): CBPE.

    Confidence-based performance estimation (NannyML): each row is a 1 with its calibrated chance.

    Args:
        histogram: rows in each bin of score, shape (..., bins).
        chance: calibrated, of each bin.
    """
    return np.stack([histogram * (1 - chance), histogram * chance], axis=-1)


def confusion(counts: Array, first: int) -> dict[str, float]:
    """Counted or expected confusion where bins from `first` on are called 1."""
    below, called = counts[:first].sum(axis=0), counts[first:].sum(axis=0)
    names = ("true_negative", "false_negative", "false_positive", "true_positive")
    return dict(zip(names, map(float, (*below, *called)), strict=True))


def estimated(histogram: Array, chance: Array, alpha: float) -> dict[Measure, Estimate]:
    """AUC that calibrated scores promise; empty where there is none.

    Its standard error is that of the AUC which the labels will show, when they come: rows and labels both as drawn.
    Where the days are given, what they differ by is in it too.

    Args:
        histogram: shape (days, bins) or (bins,).
        chance: see `calibrated`.
        alpha: of each end of the interval.
    """
    days = np.atleast_2d(histogram).astype(np.float64)
    counts = expected(days, chance)
    total = counts.sum(axis=0)
    if (total.sum(axis=0) < 1).any():
        return {}
    by_row = _by_row(total, chance, auc)
    by_day = _by_day(counts, chance, auc) if len(days) > 1 else 0.0
    # Days spread by the rows in them too: the larger of both, not their sum, would count that twice.
    return {"estimated_auc": _estimate(total, chance, auc, max(by_row, by_day), len(days) - 1, alpha)}


def losses(now: Mapping[Measure, Estimate], then: Mapping[Measure, Estimate], days: int = 0) -> tuple[Finding, ...]:
    """What performance lost against the champion's on its holdout, each with the one-sided p-value of no loss.

    Args:
        now: of the window: measured, or estimated (compared with the measured AUC).
        then: of the holdout.
        days: of the window, where its standard errors are of days: then Student's t, with one degree less.
    """
    return tuple(_loss(name, one, then["auc" if name == "estimated_auc" else name], days) for name, one in now.items())


def _loss(name: Measure, now: Estimate, then: Estimate, days: int) -> Finding:
    higher_is_better = name in {"auc", "estimated_auc"}
    lost = then.value - now.value if higher_is_better else now.value - then.value
    se = float(np.hypot(now.se, then.se))
    if not se:
        return Finding("performance", name, max(lost, 0.0), float(lost <= 0))
    p_value = stats.t.sf(lost / se, days - 1) if days > 1 else stats.norm.sf(lost / se)
    return Finding("performance", name, max(lost, 0.0), float(p_value))


def _jackknife(days: Array, score: Array, metric: Metric, alpha: float) -> Estimate:
    by_day = _by_day(days, score, metric) if len(days) > 1 else float("nan")
    total = days.sum(axis=0)
    if np.isfinite(by_day):
        return _estimate(total, score, metric, by_day, len(days) - 1, alpha)
    return _estimate(total, score, metric, _by_row(total, score, metric), 0, alpha)


def _estimate(total: Array, score: Array, metric: Metric, se: float, freedom: int, alpha: float) -> Estimate:
    value = float(metric(total, score))
    half = se * float(stats.t.isf(alpha, freedom) if freedom else stats.norm.isf(alpha))
    most = np.inf if metric is log_loss else 1.0
    return Estimate(value, max(value - half, 0.0), min(value + half, most), se, round(float(total.sum())))


def _by_day(days: Array, score: Array, metric: Metric) -> float:
    left = metric(days.sum(axis=0) - days, score)
    return float(np.sqrt((len(days) - 1) / len(days) * ((left - left.mean()) ** 2).sum()))


def _by_row(total: Array, score: Array, metric: Metric) -> float:
    """The same of rows: those of one cell are alike. A half, as unsure as can be, where without a row there is none."""
    cells = np.argwhere(total > 0)
    one = np.zeros((len(cells), *total.shape))
    one[np.arange(len(cells)), cells[:, 0], cells[:, 1]] = 1.0
    left, often, rows = metric(total - one, score), total[total > 0], float(total.sum())
    if not np.isfinite(left).all():
        return 0.5
    mean = (often * left).sum() / rows
    return float(np.sqrt((rows - 1) / rows * (often * (left - mean) ** 2).sum()))


def _flat(counts: Array) -> Array:
    """Both labels' bins one after the other."""
    return np.concatenate([counts[..., 0], counts[..., 1]], axis=-1)
