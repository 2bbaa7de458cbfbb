"""Define an estimate: a measured value with its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit


def compute_quantile(alpha: float, degrees_of_freedom: float) -> float:
    """Return the value above which a t distribution has the probability alpha.

    With infinite degrees of freedom, the normal distribution is used.
    """
    # These functions take a hundredth of the time of scipy.stats.t and norm (scipy 1.17).
    return -float(ndtri(alpha) if math.isinf(degrees_of_freedom) else stdtrit(degrees_of_freedom, alpha))


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval and its standard error.

    `low` and `high` are the ends of the two-sided interval of confidence 1 - 2 * alpha. Each end alone is a one-sided
    bound at alpha: the true value is beyond this bound with probability alpha.
    """

    value: float
    """Value measured on the rows."""
    low: float
    """One-sided lower bound at alpha."""
    high: float
    """One-sided upper bound at alpha."""
    se: float
    """Standard error."""
    rows: int
    """Number of rows on which the value was measured."""
    groups: int | None = None
    """Number of groups (such as days) that were taken as the units; None if each row is a unit."""
    degrees_of_freedom: float = math.inf
    """Degrees of freedom of the standard error; infinite if the normal distribution is used."""

    @classmethod
    def from_standard_error(
        cls,
        value: float,
        se: float,
        rows: int,
        alpha: float,
        lowest: float,
        highest: float,
        groups: int | None = None,
        degrees_of_freedom: float = math.inf,
    ) -> Estimate:
        """Make an estimate with a Wald interval: the value plus and minus a quantile times the standard error.

        Args:
            value: measured value.
            se: its standard error.
            rows: number of rows.
            alpha: error probability of each end of the interval.
            lowest: smallest possible value. The interval is cut there.
            highest: largest possible value. The interval is cut there.
            groups: number of groups, if groups are the units; None if rows are the units.
            degrees_of_freedom: of the t distribution that gives the quantile; infinite: the normal distribution.
        """
        half_width = compute_quantile(alpha, degrees_of_freedom) * se
        low, high = max(value - half_width, lowest), min(value + half_width, highest)
        return cls(value, low, high, se, rows, groups, degrees_of_freedom)

    def __neg__(self) -> Estimate:
        """Return the estimate of the negative value: turns "less is better" into "greater is better"."""
        return Estimate(-self.value, -self.high, -self.low, self.se, self.rows, self.groups, self.degrees_of_freedom)
