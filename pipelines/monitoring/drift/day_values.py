"""Estimate the error of a mean over days, where each day is like the day before: weather lasts.

The values of days are taken as an autoregression of order 1. It has one parameter for the weather, which some 30 days
can estimate. The covariances of a few lags, which `dispersion` adds up for matrices of counts, are not enough where
weather lasts: with a correlation of 0.7 they find 12 % of windows significant at a level of 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.monitoring.drift.counts import Array

LOWEST_CORRELATION, HIGHEST_CORRELATION = -0.3, 0.95
"""Limits of the correlation of consecutive days. Estimates beyond them are chance, and the error would be near 0, or
endless."""
LEAST_DAY_SHARE = 0.75
"""Least share of the variance of a day's value that is taken as weather; the rest is the chance of the day's rows.

That chance does not last, so it hides how long the weather lasts. To divide the correlation by a smaller share would
multiply its error.
"""
LEAST_ROW_SHARE = 0.5
"""A day's value varies at least by this share of the variance of its rows, even if a few days are alike by chance."""


@dataclass(frozen=True)
class DayValues:
    """The values of the days of a sample, whose mean is the value of the sample."""

    deviations: Array
    """Value of each day less the mean of all, oldest day first; shape (days,)."""
    row_variance: float
    """Variance that the value of a day would have if its rows were independent."""


@dataclass(frozen=True)
class MeanError:
    """The standard error of a mean, or of the difference of two means."""

    se: float
    freedom: float
    """Degrees of freedom of the error, for Student's t: fewer where the weather lasts longer."""


def estimate_error(samples: Sequence[DayValues]) -> MeanError:
    """Estimate the error of the mean of a sample, or of the difference of the means of two.

    The samples share the correlation of consecutive days, and the variance between days; the variance of rows is their
    own. The estimate of the correlation is corrected for its bias (Kendall 1954, Biometrika 41; Marriott & Pope 1954,
    ibid.). The variance of a mean is that of an autoregression (Bayley & Hammersley 1946, J. R. Stat. Soc. 8). Its
    degrees of freedom follow from its own variance (Satterthwaite 1946), by the delta method.

    Args:
        samples: one or two samples. Where none has two days, the error is that of independent rows.

    Returns:
        The error; 0 where all days have the same value.
    """
    sizes = np.array([len(sample.deviations) for sample in samples], dtype=np.float64)
    freedom = float(sizes.sum()) - len(samples)
    squares = sum(float(sample.deviations @ sample.deviations) for sample in samples)
    row_variances = np.array([sample.row_variance for sample in samples])
    if not freedom:
        return MeanError(float(np.sqrt((row_variances / sizes).sum())), np.inf)
    mean_row_variance = float((sizes - 1) @ row_variances) / freedom
    if not squares:
        return MeanError(0.0, freedom)
    first_lag = _estimate_first_lag(samples, squares, freedom)
    correlation = _remove_row_noise(first_lag, mean_row_variance * freedom / squares)
    share = first_lag / correlation if correlation else 1.0
    factors = 1 + share * np.array([_sum_correlations(size, correlation) for size in sizes])
    day_variance = squares / (sizes.sum() - factors.sum())
    variances = day_variance * factors + row_variances - mean_row_variance
    variances = np.maximum(variances, LEAST_ROW_SHARE * row_variances)
    slopes = np.array([_differentiate_correlations(size, correlation) for size in sizes])
    slope = float((slopes / sizes).sum() / (factors / sizes).sum())
    return MeanError(
        float(np.sqrt((variances / sizes).sum())), freedom / _compute_spread(first_lag, correlation, slope)
    )


def _estimate_first_lag(samples: Sequence[DayValues], squares: float, freedom: float) -> float:
    """Estimate the correlation of consecutive days' values, corrected for its bias."""
    products = sum(float(sample.deviations[1:] @ sample.deviations[:-1]) for sample in samples)
    days = freedom + len(samples)
    raw = products / freedom / (squares / days)
    return float(np.clip(raw + len(samples) * (1 + 3 * raw) / days, LOWEST_CORRELATION, HIGHEST_CORRELATION))


def _remove_row_noise(first_lag: float, row_share: float) -> float:
    """Compute the correlation of consecutive days' weather; `row_share` of a value's variance is the chance of rows."""
    if first_lag <= 0:
        return first_lag
    return min(first_lag / max(1 - row_share, LEAST_DAY_SHARE), HIGHEST_CORRELATION)


def _sum_correlations(days: float, correlation: float) -> float:
    """Sum the correlations of each day with all others: the variance of a mean is 1 plus this, divided by `days`."""
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * correlation**lags).sum())


def _differentiate_correlations(days: float, correlation: float) -> float:
    """Differentiate `_sum_correlations` by the correlation."""
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * lags * correlation ** (lags - 1)).sum())


def _compute_spread(first_lag: float, correlation: float, slope: float) -> float:
    """Compute half the relative variance of the estimated variance of a mean, times the degrees of freedom of the days.

    Args:
        first_lag: correlation of consecutive days' values.
        correlation: correlation of consecutive days' weather.
        slope: relative change of the variance of the mean with `first_lag`.
    """
    of_variance = 1 + 2 * first_lag**2 / (1 - correlation**2)
    of_correlation = slope**2 * (1 - correlation**2) / 2
    return of_variance + of_correlation + 2 * slope * correlation
