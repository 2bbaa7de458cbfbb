"""A number with the interval that the rows leave to it."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import norm


@dataclass(frozen=True)
class Estimate:
    """A value, and how sure the rows make it.

    `low` and `high` are the ends of the two-sided interval of confidence 1 - 2 * alpha: each end alone is a one-sided
    bound at alpha. A gate that looks at one end is wrong in alpha of the cases.
    """

    value: float
    """Measured on the rows."""
    low: float
    """One-sided lower bound at alpha."""
    high: float
    """One-sided upper bound at alpha."""
    se: float
    """Standard error."""
    rows: int
    """Rows that it was measured on."""

    @classmethod
    def normal(cls, value: float, se: float, rows: int, alpha: float, least: float, most: float) -> Estimate:
        """The normal (Wald) interval, cut to [least, most]: what the value can be at all."""
        half = float(norm.isf(alpha)) * se
        return cls(value, max(value - half, least), min(value + half, most), se, rows)

    def __neg__(self) -> Estimate:
        """The same with the sign turned: of a difference where less is better, what greater is better asks for."""
        return Estimate(-self.value, -self.high, -self.low, self.se, self.rows)
