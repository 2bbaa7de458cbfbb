"""How sure a distance is, where the rows of a day are not independent: the flights of a day share the weather.

The chi-square of shares p and q is under the null no sum of squared normals of variance 1, but of variances lambda, the
eigenvalues of the design effects' matrix (Rao & Scott 1981, JASA 76). They are had from how much the days of one sample
differ among themselves beyond what rows at random would. As these are estimated, the test is an F of as many days
(Thomas & Rao 1987, JASA 82; `svychisq` of Lumley's R package survey). Broadcasts over leading axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from pipelines.monitoring.drift import measures
from pipelines.monitoring.drift.counts import Array

LAGS = 3
"""Days for which a day's weather is remembered: their covariances count too, the farther the less (Newey & West 1987,
Econometrica 55)."""
NEAR = [1 - lag / (LAGS + 1) for lag in range(1, LAGS + 1)]
"""Weights of these covariances (Bartlett)."""
COST = 1 + 2 * sum(one**2 for one in NEAR)
"""Days that an estimate with these covariances needs to be as sure as one without (Priestley 1981, 6.2.4)."""


@dataclass(frozen=True)
class Null:
    """How a distance of two samples is distributed where nothing drifts."""

    effects: Array
    """Design effects, shape (..., bins, bins), in bins over the root of their share; of rows at random a projection."""
    share: Array
    """Pooled share of each bin."""
    freedom: float
    """Days that the estimate is worth; 0: there are no days, rows are taken as independent."""

    def quadratic(self, statistic: Array) -> Array:
        """P-value of a statistic that of rows at random is chi-square with bins less one degrees of freedom.

        Its right tail by three moments (Imhof 1961, Biometrika 48): two, as Satterthwaite's, are several times too sure
        at 1 in 1,000 where one direction, as a day's weather, outweighs the others.
        """
        first = np.trace(self.effects, axis1=-2, axis2=-1)
        some = first > 1e-9
        squared = self.effects @ self.effects
        second, third = (
            np.where(some, np.trace(one, axis1=-2, axis2=-1), 1.0) for one in (squared, squared @ self.effects)
        )
        # Of lambdas none of which is below 0 it is at most their number; estimated ones may be.
        freedom = np.minimum(second**3 / np.maximum(third, 1e-9) ** 2, np.maximum((self.share > 0).sum(axis=-1) - 1, 1))
        value = np.maximum((statistic - first) * np.sqrt(freedom / second) + freedom, 0.0)
        if self.freedom:
            p_value = special.fdtrc(freedom, freedom * self.freedom, value / freedom)
        else:
            p_value = special.chdtrc(freedom, value)
        return np.asarray(np.where(some, p_value, 1.0))

    def kolmogorov(self, distance: float, rows: float) -> float:
        """P-value of a largest distance of cumulative shares, `rows` being nm / (n + m).

        The tail of a Gaussian process's maximum is that of its largest variance, so the rows are divided by how much
        that one grew. On bins the test is conservative. Of few days it is a little too sure: it has no t in it.
        """
        root = np.sqrt(self.share)
        covariance = self.effects * root[:, np.newaxis] * root[np.newaxis, :]
        grown = np.diag(np.cumsum(np.cumsum(covariance, axis=0), axis=1)).max()
        below = np.cumsum(self.share)
        plain = (below * (1 - below)).max()
        effective = round(rows / max(grown / plain, 1.0)) if plain > 1e-12 else 0
        # A distance of 1 has no chance at all by Kolmogorov's distribution, not even of one row: half a row less has.
        return float(stats.kstwo.sf(min(distance, 1 - 0.5 / effective), effective)) if effective else 1.0


@dataclass(frozen=True)
class Sample:
    """What of a sample's days is needed; made once of a reference that many windows are compared with."""

    total: Array
    """Rows in each bin, shape (..., bins)."""
    within: Array
    """Sum of squares and products of the days' shares around their weekday's, with those of the days before."""
    random: Array
    """What that would be of rows at random, in units of the projection."""
    one_over_days: Array
    """One by the number of days, of which a day of more rows weighs more."""
    freedom: int
    """Days beyond the means of their weekdays."""

    @classmethod
    def of(cls, counts: Array, days: Array) -> Sample:
        """Of counts, shape (..., days, bins), days in order, and each day's weekday.

        Days are compared with the mean of the same weekday in the same sample, so neither the seasons of a week nor a
        drift between samples counts as spread; days that are alone there say nothing.
        """
        rows = counts.sum(axis=-1)
        mean = np.maximum(rows.mean(axis=-1), 1e-12)
        freedom = len(days) - len(np.unique(days))
        one_over_days = np.asarray((measures.shares(rows) ** 2).sum(axis=-1))
        return cls(counts.sum(axis=-2), _within(counts, days, mean), freedom / mean, one_over_days, freedom)


def null(reference: Sample, window: Sample) -> Null:
    """The null distribution of their distance; never surer than rows at random would be."""
    share = measures.shares(reference.total + window.total)
    plain = _projection(share)
    freedom = reference.freedom + window.freedom
    if freedom <= 0:
        return Null(plain, share, 0)
    within = _scaled((reference.within + window.within) / freedom, share)
    beyond = within - plain * _square((reference.random + window.random) / freedom)
    # A reference in one row is not one day, but has none.
    days = window.one_over_days + np.where(reference.one_over_days < 1, reference.one_over_days, 0.0)
    effects = plain + beyond * _square(days * measures.scale(reference.total, window.total))
    surer = np.trace(effects, axis1=-2, axis2=-1) < np.trace(plain, axis1=-2, axis2=-1)
    return Null(np.where(_square(surer), plain, effects), share, freedom / COST)


def _within(counts: Array, days: Array, mean: Array) -> Array:
    rows = counts.sum(axis=-1, keepdims=True)
    members = (days[:, np.newaxis] == np.unique(days)).astype(np.float64)
    usual = members @ measures.shares(members.T @ counts)
    residual = (counts - rows * usual) / _square(mean)
    total = np.swapaxes(residual, -1, -2) @ residual
    for lag, near in enumerate(NEAR[: len(days) - 1], start=1):
        before = np.swapaxes(residual[..., lag:, :], -1, -2) @ residual[..., :-lag, :]
        total += near * (before + np.swapaxes(before, -1, -2))
    return np.asarray(total)


def _square(numbers: Array) -> Array:
    """With two more axes, to go with matrices."""
    return np.asarray(numbers)[..., np.newaxis, np.newaxis]


def _scaled(matrix: Array, share: Array) -> Array:
    """The matrix over the roots of both bins' shares; 0 where a bin is empty."""
    used = share > 0
    root = np.where(used, 1 / np.sqrt(np.where(used, share, 1.0)), 0.0)
    return np.asarray(matrix * root[..., :, np.newaxis] * root[..., np.newaxis, :])


def _projection(share: Array) -> Array:
    """What is left of the scaled bins where shares sum to 1: identity less the root shares' outer product."""
    root = np.sqrt(share)
    used = (share > 0)[..., np.newaxis] * np.eye(share.shape[-1])
    return np.asarray(used - root[..., :, np.newaxis] * root[..., np.newaxis, :])
