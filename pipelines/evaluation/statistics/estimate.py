"""A measured value with its confidence interval."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import norm


@dataclass(frozen=True)
class Estimate:
    """A value, and how precisely the rows determine it.

    `low` and `high` are the ends of the two-sided interval of confidence 1 - 2 * alpha. Each end alone is a one-sided
    bound at alpha: a check that uses one end is wrong with probability alpha.
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
    """Number of rows that it was measured on."""

    @classmethod
    def normal(cls, value: float, se: float, rows: int, alpha: float, least: float, most: float) -> Estimate:
        """Make an estimate with the normal (Wald) interval.

        Args:
            value: measured.
            se: its standard error.
            rows: number of rows.
            alpha: of each end.
            least: smallest possible value; the interval is cut there.
            most: largest possible value; the interval is cut there.
        """
        half = float(norm.isf(alpha)) * se
        return cls(value, max(value - half, least), min(value + half, most), se, rows)

    def __neg__(self) -> Estimate:
        """Return the estimate of the negative value: turns "less is better" into "greater is better"."""
        return Estimate(-self.value, -self.high, -self.low, self.se, self.rows)
