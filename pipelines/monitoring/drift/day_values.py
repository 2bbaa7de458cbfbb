"""Estimate the error of a mean over days, if each day is correlated with the day before.

A day's value has two parts: the day effect, which all rows of the day share (for flights, the weather), and the noise
of the single rows. The effects of consecutive days are correlated; the noise of different days is independent.

The day effects are modelled as an autoregression of order 1. Its one parameter can be estimated from some 30 days. The
module `dispersion`, for matrices of counts, adds up the covariances of a few lags instead. A few lags are not enough if
the correlation is high: at a correlation of 0.7, 12 % of windows without drift are significant at a level of 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.monitoring.drift.counts import Array

MIN_CORRELATION, MAX_CORRELATION = -0.3, 0.95
"""Limits of the estimated correlation of consecutive days. An estimate beyond them is due to chance. A lower
correlation could make the error of the mean almost 0, a higher one almost infinite."""
MIN_DAY_EFFECT_SHARE = 0.75
"""Smallest share of the variance of a day's value that is attributed to the day effect. The rest is the rows' noise.

The noise is independent from day to day, so the values are less correlated than the day effects. The correlation of the
day effects is the correlation of the values, divided by the day effect's share. Division by a smaller share would
increase the error of the result too much.
"""
MIN_ROW_SHARE = 0.5
"""Smallest variance of a day's value, as a share of `row_variance`. Without this limit, a few days that are alike by
chance would give an error near 0."""


@dataclass(frozen=True)
class DayValues:
    """The values of the days of a sample, whose mean is the value of the sample."""

    deviations: Array
    """Value of each day minus the mean of all values, oldest day first; shape (days,)."""
    row_variance: float
    """Variance that the value of a day would have if its rows were independent."""


@dataclass(frozen=True)
class MeanError:
    """The standard error of a mean, or of the difference of two means."""

    se: float
    degrees_of_freedom: float
    """Degrees of freedom of the error, for Student's t. A higher correlation of consecutive days means fewer."""


def estimate_error(samples: Sequence[DayValues]) -> MeanError:
    """Estimate the error of the mean of a sample, or of the difference of the means of two samples.

    One correlation of consecutive days and one variance between days are estimated from all samples together; each
    sample has its own `row_variance`. The estimated correlation is corrected for its bias (Kendall 1954, Biometrika 41;
    Marriott & Pope 1954, ibid.). The variance of a mean is that of an autoregression (Bayley & Hammersley 1946, J. R.
    Stat. Soc. 8). The degrees of freedom follow from the variance of the estimated variance (Satterthwaite 1946), which
    is computed by the delta method.

    Args:
        samples: one or two samples. If no sample has two days, the error is that of independent rows.

    Returns:
        The error; 0 if a sample has two days or more, and the days of each sample have the same value.
    """
    sizes = np.array([len(sample.deviations) for sample in samples], dtype=np.float64)
    degrees_of_freedom = float(sizes.sum()) - len(samples)
    square_sum = sum(float(sample.deviations @ sample.deviations) for sample in samples)
    row_variances = np.array([sample.row_variance for sample in samples])
    if not degrees_of_freedom:
        return MeanError(float(np.sqrt((row_variances / sizes).sum())), np.inf)
    mean_row_variance = float((sizes - 1) @ row_variances) / degrees_of_freedom
    if not square_sum:
        return MeanError(0.0, degrees_of_freedom)
    value_correlation = _estimate_value_correlation(samples, square_sum, degrees_of_freedom)
    day_effect_correlation = _remove_row_noise(value_correlation, mean_row_variance * degrees_of_freedom / square_sum)
    day_effect_share = value_correlation / day_effect_correlation if day_effect_correlation else 1.0
    correlation_sums = np.array([_sum_correlations(size, day_effect_correlation) for size in sizes])
    # For each sample, the factor by which the correlation of the days multiplies the variance of the mean.
    variance_factors = 1 + day_effect_share * correlation_sums
    day_variance = square_sum / (sizes.sum() - variance_factors.sum())
    # `day_variance` has the noise of the rows of all samples; replace it by the noise of each sample's own rows.
    variances = day_variance * variance_factors + row_variances - mean_row_variance
    variances = np.maximum(variances, MIN_ROW_SHARE * row_variances)
    slopes = np.array([_differentiate_correlations(size, day_effect_correlation) for size in sizes])
    slope = float((slopes / sizes).sum() / (variance_factors / sizes).sum())
    return MeanError(
        float(np.sqrt((variances / sizes).sum())),
        degrees_of_freedom / _compute_freedom_divisor(value_correlation, day_effect_correlation, slope),
    )


def _estimate_value_correlation(samples: Sequence[DayValues], square_sum: float, degrees_of_freedom: float) -> float:
    """Estimate the correlation of consecutive days' values, corrected for its bias."""
    products = sum(float(sample.deviations[1:] @ sample.deviations[:-1]) for sample in samples)
    days = degrees_of_freedom + len(samples)
    raw_correlation = products / degrees_of_freedom / (square_sum / days)
    return float(
        np.clip(raw_correlation + len(samples) * (1 + 3 * raw_correlation) / days, MIN_CORRELATION, MAX_CORRELATION)
    )


def _remove_row_noise(value_correlation: float, row_share: float) -> float:
    """Compute the correlation of consecutive days' effects from the correlation of their values.

    Args:
        value_correlation: correlation of consecutive days' values.
        row_share: share of the variance of the values that is noise of the rows.
    """
    if value_correlation <= 0:
        return value_correlation
    return min(value_correlation / max(1 - row_share, MIN_DAY_EFFECT_SHARE), MAX_CORRELATION)


def _sum_correlations(days: float, correlation: float) -> float:
    """Compute the sum of a day's correlations with all other days, averaged over the days.

    If each value has the variance 1, the variance of their mean is (1 + this sum) / days.
    """
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * correlation**lags).sum())


def _differentiate_correlations(days: float, correlation: float) -> float:
    """Compute the derivative of `_sum_correlations` with respect to the correlation."""
    lags = np.arange(1, days)
    return float(2 * ((1 - lags / days) * lags * correlation ** (lags - 1)).sum())


def _compute_freedom_divisor(value_correlation: float, day_effect_correlation: float, slope: float) -> float:
    """Compute the number by which the degrees of freedom of independent days are divided.

    The error has 2 / V degrees of freedom (Satterthwaite 1946). V is the relative variance of the estimated variance of
    the mean. The divisor is thus V / 2, times the degrees of freedom of independent days.

    Args:
        value_correlation: correlation of consecutive days' values.
        day_effect_correlation: correlation of consecutive days' effects.
        slope: derivative, with respect to `value_correlation`, of the logarithm of the variance of the mean.
    """
    variance_part = 1 + 2 * value_correlation**2 / (1 - day_effect_correlation**2)
    correlation_part = slope**2 * (1 - day_effect_correlation**2) / 2
    return variance_part + correlation_part + 2 * slope * day_effect_correlation
