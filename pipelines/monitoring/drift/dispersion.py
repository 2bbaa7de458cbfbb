"""Compute p-values of distances between samples, corrected for within-day correlation.

Rows of a day are correlated: for example, the flights of a day share its weather.

Under the null hypothesis the chi-square of shares p and q is a sum of squared normals whose variances are not 1 but the
eigenvalues of the matrix of design effects (Rao & Scott 1981, JASA 76). The matrix is estimated from how much the
variance between the days of a sample exceeds the variance of independent rows. Since the matrix is only an estimate,
the test is an F test; its degrees of freedom are an effective number of days (Thomas & Rao 1987, JASA 82; `svychisq` in
Lumley's R package survey). All functions except `compute_ks_p_value` broadcast over the leading axes of their arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from pipelines.monitoring.drift import distances
from pipelines.monitoring.drift.counts import Array

LAGS = 3
"""Largest lag, in days, at which days are treated as correlated. The weight of a covariance decreases with its lag
(Newey & West 1987, Econometrica 55)."""
LAG_WEIGHTS = [1 - lag / (LAGS + 1) for lag in range(1, LAGS + 1)]
"""Bartlett weight of the covariance at each lag, from 1 on."""
VARIANCE_FACTOR = 1 + 2 * sum(weight**2 for weight in LAG_WEIGHTS)
"""Factor by which the use of these covariances reduces the effective number of days (Priestley 1981, 6.2.4)."""


@dataclass(frozen=True)
class NullDistribution:
    """Null distribution of the distance between two samples."""

    design_effects: Array
    """Matrix of design effects, shape (..., bins, bins): the covariance of the bins, each divided by the square root
    of its share. For independent rows, the matrix is a projection."""
    share: Array
    """Share of each bin in both samples together, shape (..., bins)."""
    degrees_of_freedom: float
    """Degrees of freedom of the estimate: an effective number of days. If 0, rows are treated as independent."""

    def compute_chi_square_p_value(self, statistic: Array) -> Array:
        """Compute the p-value of a statistic that is chi-square with bins - 1 degrees of freedom for independent rows.

        The right tail is approximated by three moments (Imhof 1961, Biometrika 48). Two moments, as in Satterthwaite's
        method, give p-values several times too small near 0.001 if one eigenvalue is much larger than the others.
        """
        trace = np.trace(self.design_effects, axis1=-2, axis2=-1)
        is_positive = trace > 1e-9
        square = self.design_effects @ self.design_effects
        trace_of_square, trace_of_cube = (
            np.where(is_positive, np.trace(power, axis1=-2, axis2=-1), 1.0)
            for power in (square, square @ self.design_effects)
        )
        # If no eigenvalue is negative, the degrees of freedom are at most as many as the eigenvalues. An estimated
        # eigenvalue may be negative, so the degrees of freedom are limited to this number.
        numerator_degrees = np.minimum(
            trace_of_square**3 / np.maximum(trace_of_cube, 1e-9) ** 2, np.maximum((self.share > 0).sum(axis=-1) - 1, 1)
        )
        value = np.maximum((statistic - trace) * np.sqrt(numerator_degrees / trace_of_square) + numerator_degrees, 0.0)
        if self.degrees_of_freedom:
            p_value = special.fdtrc(
                numerator_degrees, numerator_degrees * self.degrees_of_freedom, value / numerator_degrees
            )
        else:
            p_value = special.chdtrc(numerator_degrees, value)
        return np.asarray(np.where(is_positive, p_value, 1.0))

    def compute_ks_p_value(self, distance: float, rows: float) -> float:
        """Compute the p-value of the largest distance between cumulative shares (Kolmogorov-Smirnov).

        The tail of the maximum of a Gaussian process depends on its largest variance. So the rows are divided by the
        factor by which within-day correlation increases this variance. On binned values the test is conservative. With
        few days the p-value is slightly too small.

        Args:
            distance: largest distance.
            rows: n m / (n + m) for samples of n and m rows.
        """
        root = np.sqrt(self.share)
        covariance = self.design_effects * root[:, np.newaxis] * root[np.newaxis, :]
        variance = np.diag(np.cumsum(np.cumsum(covariance, axis=0), axis=1)).max()
        cumulative_share = np.cumsum(self.share)
        independent_variance = (cumulative_share * (1 - cumulative_share)).max()
        effective_rows = round(rows / max(variance / independent_variance, 1.0)) if independent_variance > 1e-12 else 0
        # Kolmogorov's distribution gives a distance of 1 the probability 0, even for one row: subtract half a row.
        return float(stats.kstwo.sf(min(distance, 1 - 0.5 / effective_rows), effective_rows)) if effective_rows else 1.0


@dataclass(frozen=True)
class Sample:
    """Sums over the days of a sample: of the reference, or of a window."""

    total: Array
    """Rows in each bin, shape (..., bins)."""
    products_between_days: Array
    """Sums of squares and products of the deviations of days from their weekday's mean, with lagged products, shape
    (..., bins, bins): how much days differ, not the rows within a day. A deviation is in rows, divided by the mean rows
    of a day."""
    independent_factor: Array
    """If rows were independent, `products_between_days`, divided as in `_scale_by_share`, would be this number times
    the projection of `_compute_projection`. Shape (...)."""
    inverse_day_count: Array
    """One divided by the effective number of days, in which a day with more rows has more weight. Shape (...)."""
    degrees_of_freedom: int
    """Degrees of freedom: the number of days minus the number of weekdays among them."""

    @classmethod
    def from_counts(cls, counts: Array, weekdays: Array) -> Sample:
        """Compute the sums over the days.

        A day is compared with the mean of the same weekday in the same sample, so neither the weekly season nor a drift
        between the samples adds to the variance. A weekday with one day adds nothing.

        Args:
            counts: shape (..., days, bins), days in order.
            weekdays: weekday of each day, shape (days,).
        """
        rows = counts.sum(axis=-1)
        mean_rows = np.maximum(rows.mean(axis=-1), 1e-12)
        degrees_of_freedom = len(weekdays) - len(np.unique(weekdays))
        inverse_day_count = np.asarray((distances.compute_shares(rows) ** 2).sum(axis=-1))
        return cls(
            counts.sum(axis=-2),
            _compute_products_between_days(counts, weekdays, mean_rows),
            degrees_of_freedom / mean_rows,
            inverse_day_count,
            degrees_of_freedom,
        )


def estimate_null_distribution(reference: Sample, window: Sample) -> NullDistribution:
    """Estimate the null distribution of the distance of two samples.

    The trace of the design effects, which is the mean of the chi-square, is never smaller than for independent rows.
    """
    share = distances.compute_shares(reference.total + window.total)
    effects_if_independent = _compute_projection(share)
    degrees_of_freedom = reference.degrees_of_freedom + window.degrees_of_freedom
    if degrees_of_freedom <= 0:
        return NullDistribution(effects_if_independent, share, 0)
    products = (reference.products_between_days + window.products_between_days) / degrees_of_freedom
    independent_factor = (reference.independent_factor + window.independent_factor) / degrees_of_freedom
    excess = _scale_by_share(products, share) - effects_if_independent * _add_axes(independent_factor)
    # If a reference has one row of counts, this row is the sum of many days, so its variance between days is unknown.
    inverse_day_count = window.inverse_day_count + np.where(
        reference.inverse_day_count < 1, reference.inverse_day_count, 0.0
    )
    effects = effects_if_independent + excess * _add_axes(
        inverse_day_count * distances.compute_sample_factor(reference.total, window.total)
    )
    is_narrower = np.trace(effects, axis1=-2, axis2=-1) < np.trace(effects_if_independent, axis1=-2, axis2=-1)
    return NullDistribution(
        np.where(_add_axes(is_narrower), effects_if_independent, effects), share, degrees_of_freedom / VARIANCE_FACTOR
    )


def _compute_products_between_days(counts: Array, weekdays: Array, mean_rows: Array) -> Array:
    """Compute the sums of squares and products that `Sample.products_between_days` describes.

    Args:
        counts: shape (..., days, bins).
        weekdays: weekday of each day, shape (days,).
        mean_rows: mean number of rows of a day, shape (...).
    """
    rows = counts.sum(axis=-1, keepdims=True)
    is_weekday = (weekdays[:, np.newaxis] == np.unique(weekdays)).astype(np.float64)
    weekday_share = is_weekday @ distances.compute_shares(is_weekday.T @ counts)
    residual = (counts - rows * weekday_share) / _add_axes(mean_rows)
    products = np.swapaxes(residual, -1, -2) @ residual
    for lag, weight in enumerate(LAG_WEIGHTS[: len(weekdays) - 1], start=1):
        lagged_products = np.swapaxes(residual[..., lag:, :], -1, -2) @ residual[..., :-lag, :]
        products += weight * (lagged_products + np.swapaxes(lagged_products, -1, -2))
    return np.asarray(products)


def _add_axes(numbers: Array) -> Array:
    """Add two axes, to broadcast with matrices."""
    return np.asarray(numbers)[..., np.newaxis, np.newaxis]


def _scale_by_share(matrix: Array, share: Array) -> Array:
    """Divide each element by the square roots of the shares of its two bins; 0 if a bin is empty."""
    has_rows = share > 0
    root = np.where(has_rows, 1 / np.sqrt(np.where(has_rows, share, 1.0)), 0.0)
    return np.asarray(matrix * root[..., :, np.newaxis] * root[..., np.newaxis, :])


def _compute_projection(share: Array) -> Array:
    """Compute the projection for shares that sum to 1: identity minus the outer product of their square roots."""
    root = np.sqrt(share)
    identity = (share > 0)[..., np.newaxis] * np.eye(share.shape[-1])
    return np.asarray(identity - root[..., :, np.newaxis] * root[..., np.newaxis, :])
