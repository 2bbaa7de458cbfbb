"""Estimate the error of a mean over days, where each day is correlated with the day before: weather lasts.

The values of days are modelled as an autoregression of order 1. Its one parameter can be estimated from some 30 days.
The module `dispersion` adds up the covariances of a few lags, for matrices of counts. These are not enough where
weather lasts: with a correlation of 0.7, they find 12 % of windows significant at a level of 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.monitoring.drift.counts import Array

LOWEST_CORRELATION, HIGHEST_CORRELATION = -0.3, 0.95
"""Limits of the correlation of consecutive days. An estimate beyond them is due to chance; with it, the error would be
near 0 or infinite."""
LEAST_DAY_SHARE = 0.75
"""Lowest share of the variance of a day's value that is attributed to weather. The rest is the noise of the day's rows.

This noise is independent from day to day, so the values of days are less correlated than the weather. To get
the correlation of the weather, that of the values is divided by the share of the weather. A smaller share would
multiply the error of the correlation.
"""
LEAST_ROW_SHARE = 0.5
"""Lowest variance of a day's value, as a share of `row_variance`: a few days may be alike by chance."""


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
    """Estimate the error of the mean of a sample, or of the difference of the means of two samples.

    The samples share the correlation of consecutive days, and the variance between days; the variance of rows is their
    own. The estimate of the correlation is corrected for its bias (Kendall 1954, Biometrika 41; Marriott & Pope 1954,
    ibid.). The variance of a mean is that of an autoregression (Bayley & Hammersley 1946, J. R. Stat. Soc. 8). The
    degrees of freedom follow from the variance of this estimate (Satterthwaite 1946), by the delta method.

    Args:
        samples: one or two samples. Where none has two days, the error is that of independent rows.

    Returns:
        The error; 0 where all days have the same value.
    """
    sizes = np.array([len(sample.deviations) for sample in samples], dtype=np.float64)
    freedom = float(sizes.sum()) - len(samples)
    square_sum = sum(float(sample.deviations @ sample.deviations) for sample in samples)
    row_variances = np.array([sample.row_variance for sample in samples])
    if not freedom:
        return MeanError(float(np.sqrt((row_variances / sizes).sum())), np.inf)
    mean_row_variance = float((sizes - 1) @ row_variances) / freedom
    if not square_sum:
        return MeanError(0.0, freedom)
    first_lag = _estimate_first_lag(samples, square_sum, freedom)
    correlation = _remove_row_noise(first_lag, mean_row_variance * freedom / square_sum)
    weather_share = first_lag / correlation if correlation else 1.0
    factors = 1 + weather_share * np.array([_sum_correlations(size, correlation) for size in sizes])
    day_variance = square_sum / (sizes.sum() - factors.sum())
    variances = day_variance * factors + row_variances - mean_row_variance
    variances = np.maximum(variances, LEAST_ROW_SHARE * row_variances)
    slopes = np.array([_differentiate_correlations(size, correlation) for size in sizes])
    slope = float((slopes / sizes).sum() / (factors / sizes).sum())
    return MeanError(
        float(np.sqrt((variances / sizes).sum())), freedom / _compute_freedom_divisor(first_lag, correlation, slope)
    )


def _estimate_first_lag(samples: Sequence[DayValues], square_sum: float, freedom: float) -> float:
    """Estimate the correlation of consecutive days' values, corrected for its bias."""
    products = sum(float(sample.deviations[1:] @ sample.deviations[:-1]) for sample in samples)
    days = freedom + len(samples)
    raw_correlation = products / freedom / (square_sum / days)
    return float(
        np.clip(
            raw_correlation + len(samples) * (1 + 3 * raw_correlation) / days, LOWEST_CORRELATION, HIGHEST_CORRELATION
        )
    )


def _remove_row_noise(first_lag: float, row_share: float) -> float:
    """Compute the correlation of consecutive days' weather from that of their values.

    Args:
        first_lag: correlation of consecutive days' values.
        row_share: share of the variance of the values that is noise of the rows.
    """
    if first_lag <= 0:
        return first_lag
    return min(first_lag / max(1 - row_share, LEAST_DAY_SHARE), HIGHEST_CORRELATION)


def _sum_correlations(days: float, correlation: float) -> float:
    """Sum the correlations of a day with all others, on average over the days.

    The variance of the mean of values with variance 1 is (1 + sum) / days.
    """
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * correlation**lags).sum())


def _differentiate_correlations(days: float, correlation: float) -> float:
    """Compute the derivative of `_sum_correlations` with respect to the correlation."""
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * lags * correlation ** (lags - 1)).sum())


def _compute_freedom_divisor(first_lag: float, correlation: float, slope: float) -> float:
    """Compute the number by which the degrees of freedom of independent days are divided.

    It is half the relative variance of the estimated variance of a mean, times these degrees of freedom.

    Args:
        first_lag: correlation of consecutive days' values.
        correlation: correlation of consecutive days' weather.
        slope: relative change of the variance of the mean with `first_lag`.
    """
    variance_part = 1 + 2 * first_lag**2 / (1 - correlation**2)
    correlation_part = slope**2 * (1 - correlation**2) / 2
    return variance_part + correlation_part + 2 * slope * correlation
