"""Estimate differences of means in a running test, with intervals that are valid however often they are read.

The intervals are asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, Annals of
Statistics 52, theorem 2.2): with probability 1 - alpha, the true difference is inside the interval at every look, that
is, whenever the interval is read, and the test may be stopped at any look. An interval for one look, such as Wald's,
misses the true difference at some look with a probability that grows with the number of looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.estimate import compute_quantile
from pipelines.evaluation.statistics.inputs import Array

PLANNED_ROWS = 10_000
"""Number of rows for which the width of an interval is optimized, unless the caller gives another number."""

LAG_FACTOR = 1.3
"""Number of lags, as a multiple of the square root of the number of days."""


@dataclass(frozen=True)
class DailySums:
    """Sums of the values of a sample by day. Each array has the shape (days,), and a day may have no values."""

    rows: Array
    """Number of values of each day."""
    total: Array
    """Sum of the values of each day."""
    squares: Array
    """Sum of the squared values of each day."""

    def select_first(self, days: int) -> DailySums:
        """Return the sums of the first `days` days."""
        return DailySums(self.rows[:days], self.total[:days], self.squares[:days])

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.rows.sum())

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(self.total.sum() / self.rows.sum())

    @property
    def variance(self) -> float:
        """Variance of the values, 0 for one value."""
        deviations = float(self.squares.sum()) - self.count * self.mean**2
        return max(deviations, 0.0) / max(self.count - 1, 1)

    @property
    def influences(self) -> Array:
        """How much each day moves the mean."""
        return np.asarray((self.total - self.rows * self.mean) / self.count)


@dataclass(frozen=True)
class Difference:
    """A difference of means with its interval."""

    value: float
    """The difference."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    se: float
    """Standard error."""


def estimate_difference(samples: Sequence[DailySums], alpha: float, planned_rows: float = PLANNED_ROWS) -> Difference:
    """Estimate the mean of one sample (of paired differences), or the mean of the second sample minus the first's.

    The standard error is the larger one of two: that of independent rows, and that of days as units. If the difference
    changes from day to day, rows of a day are related, and more rows of the same days add little information. With
    fewer than 14 days, the standard error of days is too small.

    Args:
        samples: one or two samples with the same days, each with at least one row.
        alpha: probability that the true difference is outside the interval at any look.
        planned_rows: number of rows of both samples for which the width of the interval is optimized.

    Raises:
        DataError: a sample has no rows. A retry cannot help.
        SpecError: alpha is not between 0 and 1. A retry cannot help.
    """
    if not all(sample.count for sample in samples):
        raise DataError("there are no rows to compare.")
    means = [sample.mean for sample in samples]
    value = means[-1] - (means[0] if len(means) > 1 else 0.0)
    rows = sum(sample.count for sample in samples)
    se = max(_compute_row_error(samples), _compute_day_error(samples))
    half_width = se * compute_width_factor(rows / planned_rows, alpha)
    return Difference(value, value - half_width, value + half_width, se)


def compute_width_factor(progress: float, alpha: float) -> float:
    """Return half the width of the interval in standard errors.

    Args:
        progress: rows so far, as a multiple of the planned rows. At 1 the factor is close to the smallest possible.
        alpha: probability that the true value is outside the interval at any look.

    Raises:
        SpecError: alpha is not between 0 and 1. A retry cannot help.
    """
    if not 0 < alpha < 1:
        raise SpecError(f"alpha is {alpha}.", "Choose a probability between 0 and 1, such as 0.05.")
    log_term = -2 * math.log(alpha)
    # This is rows * rho ** 2 of the paper, with a rho for which the factor is close to its smallest value at progress
    # 1.
    information = progress * (log_term + math.log(log_term + 1))
    return math.sqrt(2 * (information + 1) / information * math.log(math.sqrt(information + 1) / alpha))


def estimate_rows(variance: float, effect: float, alpha: float, power: float, share: float = 0.5) -> int:
    """Estimate how many rows two samples need together to detect a difference of `effect` with probability `power`.

    Args:
        variance: variance of the values in a sample.
        effect: difference of the means to detect, in either direction; above 0.
        alpha: as for `estimate_difference`.
        power: probability that the interval excludes 0 at that number of rows or before.
        share: share of the rows that the second sample gets.

    Raises:
        SpecError: a value is out of its range. A retry cannot help.
    """
    if not 0 < effect < math.inf:
        raise SpecError(f"effect is {effect:g}.", "Give a difference above 0.")
    for name, value in (("power", power), ("share", share)):
        if not 0 < value < 1:
            raise SpecError(f"{name} is {value:g}.", "Give a number between 0 and 1.")
    factor = compute_width_factor(1.0, alpha) + compute_quantile(1 - power, math.inf)
    return math.ceil(variance * (1 / share + 1 / (1 - share)) * (factor / effect) ** 2)


def _compute_row_error(samples: Sequence[DailySums]) -> float:
    return math.sqrt(sum(sample.variance / sample.count for sample in samples))


def _compute_day_error(samples: Sequence[DailySums]) -> float:
    """Compute the standard error with days as units, 0 for one day. Days that follow each other may be related.

    The variance is Newey & West's (1987, Econometrica 55), with as many lags as Lazarus, Lewis, Stock & Watson (2018,
    Journal of Business & Economic Statistics 36) advise. A factor corrects the bias that the variance would have if the
    days were unrelated.
    """
    influences = samples[-1].influences - (samples[0].influences if len(samples) > 1 else 0.0)
    days = len(influences)
    lags = min(round(LAG_FACTOR * math.sqrt(days)), days - 1)
    if not lags:
        return 0.0
    squares = float(influences @ influences)
    products = sum((1 - lag / (lags + 1)) * float(influences[lag:] @ influences[:-lag]) for lag in range(1, lags + 1))
    correction = days / (days - 1) / max(1 - (lags + 1) / days, 0.5)
    return math.sqrt(max(squares + 2 * products, squares) * correction)
