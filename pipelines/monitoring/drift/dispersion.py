"""P-values of distances, corrected for within-day correlation: the flights of a day share the weather.

Under the null hypothesis the chi-square of shares p and q is a sum of squared normals whose variances are not 1 but the
eigenvalues of the matrix of design effects (Rao & Scott 1981, JASA 76). The matrix is estimated from the variance
between the days of a sample that exceeds that of independent rows. Since it is estimated, the test is an F with as many
degrees of freedom as there are days (Thomas & Rao 1987, JASA 82; `svychisq` in Lumley's R package survey). All
functions broadcast over leading axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from pipelines.monitoring.drift import measures
from pipelines.monitoring.drift.counts import Array

LAGS = 3
"""Days over which days are correlated: covariances up to this lag count, with decreasing weight (Newey & West 1987,
Econometrica 55)."""
LAG_WEIGHTS = [1 - lag / (LAGS + 1) for lag in range(1, LAGS + 1)]
"""Bartlett weights of the covariances at each lag."""
VARIANCE_FACTOR = 1 + 2 * sum(weight**2 for weight in LAG_WEIGHTS)
"""Factor by which these covariances reduce the effective number of days (Priestley 1981, 6.2.4)."""


@dataclass(frozen=True)
class Null:
    """Null distribution of the distance between two samples."""

    effects: Array
    """Design effects, shape (..., bins, bins), of bins divided by the root of their share; a projection for independent
    rows."""
    share: Array
    """Pooled share of each bin."""
    freedom: float
    """Effective number of days of the estimate; 0: there are no days, and rows are taken as independent."""

    def quadratic_p_value(self, statistic: Array) -> Array:
        """Compute the p-value of a statistic that is chi-square with bins - 1 degrees of freedom for independent rows.

        The right tail is approximated by three moments (Imhof 1961, Biometrika 48). Two moments, as in Satterthwaite's
        method, give p-values several times too small near 0.001 where one eigenvalue, such as the weather's, dominates.
        """
        first = np.trace(self.effects, axis1=-2, axis2=-1)
        is_positive = first > 1e-9
        squared = self.effects @ self.effects
        second, third = (
            np.where(is_positive, np.trace(power, axis1=-2, axis2=-1), 1.0)
            for power in (squared, squared @ self.effects)
        )
        # At most the number of eigenvalues where none is below 0; estimated ones may be.
        freedom = np.minimum(second**3 / np.maximum(third, 1e-9) ** 2, np.maximum((self.share > 0).sum(axis=-1) - 1, 1))
        value = np.maximum((statistic - first) * np.sqrt(freedom / second) + freedom, 0.0)
        if self.freedom:
            p_value = special.fdtrc(freedom, freedom * self.freedom, value / freedom)
        else:
            p_value = special.chdtrc(freedom, value)
        return np.asarray(np.where(is_positive, p_value, 1.0))

    def kolmogorov_p_value(self, distance: float, rows: float) -> float:
        """Compute the p-value of the largest distance of cumulative shares; `rows` is nm / (n + m).

        The tail of the maximum of a Gaussian process is that of its largest variance, so the rows are divided by the
        growth of that variance. The test is conservative on bins. With few days the p-value is slightly too small.
        """
        root = np.sqrt(self.share)
        covariance = self.effects * root[:, np.newaxis] * root[np.newaxis, :]
        variance = np.diag(np.cumsum(np.cumsum(covariance, axis=0), axis=1)).max()
        below = np.cumsum(self.share)
        independent = (below * (1 - below)).max()
        effective = round(rows / max(variance / independent, 1.0)) if independent > 1e-12 else 0
        # By Kolmogorov's distribution a distance of 1 has probability 0, even with one row; half a row less has not.
        return float(stats.kstwo.sf(min(distance, 1 - 0.5 / effective), effective)) if effective else 1.0


@dataclass(frozen=True)
class Sample:
    """Sums over the days of a sample. Computed once for a reference that many windows are compared with."""

    total: Array
    """Rows in each bin, shape (..., bins)."""
    within: Array
    """Sum of squares and products of the days' shares around their weekday's mean, with the lagged products."""
    random: Array
    """The same sum for independent rows, in units of the projection."""
    one_over_days: Array
    """One divided by the effective number of days; a day with more rows weighs more."""
    freedom: int
    """Number of days minus the number of weekdays."""

    @classmethod
    def from_counts(cls, counts: Array, days: Array) -> Sample:
        """Compute the sums.

        A day is compared with the mean of the same weekday in the same sample, so neither the weekly season nor a drift
        between the samples adds to the variance. A weekday with one day adds nothing.

        Args:
            counts: shape (..., days, bins), days in order.
            days: weekday of each day, shape (days,).
        """
        rows = counts.sum(axis=-1)
        mean = np.maximum(rows.mean(axis=-1), 1e-12)
        freedom = len(days) - len(np.unique(days))
        one_over_days = np.asarray((measures.shares(rows) ** 2).sum(axis=-1))
        return cls(
            counts.sum(axis=-2),
            _compute_products_within_days(counts, days, mean),
            freedom / mean,
            one_over_days,
            freedom,
        )


def estimate_null(reference: Sample, window: Sample) -> Null:
    """Estimate the null distribution of the distance. It is never narrower than that of independent rows."""
    share = measures.shares(reference.total + window.total)
    independent = _compute_projection(share)
    freedom = reference.freedom + window.freedom
    if freedom <= 0:
        return Null(independent, share, 0)
    within = _scale_by_share((reference.within + window.within) / freedom, share)
    beyond = within - independent * _add_axes((reference.random + window.random) / freedom)
    # A reference given as one line of counts has no days, rather than one.
    days = window.one_over_days + np.where(reference.one_over_days < 1, reference.one_over_days, 0.0)
    effects = independent + beyond * _add_axes(days * measures.scale(reference.total, window.total))
    is_narrower = np.trace(effects, axis1=-2, axis2=-1) < np.trace(independent, axis1=-2, axis2=-1)
    return Null(np.where(_add_axes(is_narrower), independent, effects), share, freedom / VARIANCE_FACTOR)


def _compute_products_within_days(counts: Array, days: Array, mean: Array) -> Array:
    rows = counts.sum(axis=-1, keepdims=True)
    members = (days[:, np.newaxis] == np.unique(days)).astype(np.float64)
    usual = members @ measures.shares(members.T @ counts)
    residual = (counts - rows * usual) / _add_axes(mean)
    total = np.swapaxes(residual, -1, -2) @ residual
    for lag, weight in enumerate(LAG_WEIGHTS[: len(days) - 1], start=1):
        before = np.swapaxes(residual[..., lag:, :], -1, -2) @ residual[..., :-lag, :]
        total += weight * (before + np.swapaxes(before, -1, -2))
    return np.asarray(total)


def _add_axes(numbers: Array) -> Array:
    """Add two axes, to broadcast with matrices."""
    return np.asarray(numbers)[..., np.newaxis, np.newaxis]


def _scale_by_share(matrix: Array, share: Array) -> Array:
    """Divide the matrix by the roots of both bins' shares; 0 where a bin is empty."""
    used = share > 0
    root = np.where(used, 1 / np.sqrt(np.where(used, share, 1.0)), 0.0)
    return np.asarray(matrix * root[..., :, np.newaxis] * root[..., np.newaxis, :])


def _compute_projection(share: Array) -> Array:
    """Compute the projection for shares that sum to 1: identity minus the outer product of the root shares."""
    root = np.sqrt(share)
    used = (share > 0)[..., np.newaxis] * np.eye(share.shape[-1])
    return np.asarray(used - root[..., :, np.newaxis] * root[..., np.newaxis, :])
