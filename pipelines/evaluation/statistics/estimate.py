"""A measured value with its confidence interval."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import norm


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval and its standard error.

    `low` and `high` are the ends of the two-sided interval of confidence 1 - 2 * alpha. Each end alone is a one-sided
    bound at alpha: the true value is beyond it with probability alpha.
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

    @classmethod
    def from_standard_error(
        cls, value: float, se: float, rows: int, alpha: float, lowest: float, highest: float
    ) -> Estimate:
        """Make an estimate with the normal (Wald) interval.

        Args:
            value: measured value.
            se: its standard error.
            rows: number of rows.
            alpha: error probability of each end of the interval.
            lowest: smallest possible value, where the interval is cut.
            highest: largest possible value, where the interval is cut.
        """
        half_width = float(norm.isf(alpha)) * se
        return cls(value, max(value - half_width, lowest), min(value + half_width, highest), se, rows)

    def __neg__(self) -> Estimate:
        """Return the estimate of the negative value: turns "less is better" into "greater is better"."""
        return Estimate(-self.value, -self.high, -self.low, self.se, self.rows)
