"""Counts of one column over fixed bins, of the reference or of a window, day by day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipelines.errors import DataError

Array = np.ndarray[Any, Any]
ANY_DAY = 7
"""After the seven."""
Kind = Literal["numeric", "category", "label"]


@dataclass(frozen=True)
class Counts:
    """Rows in each bin, a row a day, in order. What is given as one row has no days: its rows are taken as independent.

    Raises:
        DataError: a count is below 0 or not a number, or the shapes do not fit.
    """

    bins: Array
    """Shape (days, bins) or (bins,). Numeric: underflow, the bins in order, overflow. Categories: any order, but what
    the reference did not know ("unseen") is the last. Labels: 0, 1."""
    missing: Array | float = 0.0
    """Shape (days,), or one number: rows without a value."""
    weekdays: Array | tuple[()] = ()
    """Shape (days,), 0 to 6; empty: days of the week are not told apart."""

    def __post_init__(self) -> None:
        """Checks, and makes both of them arrays by day."""
        bins = np.atleast_2d(np.asarray(self.bins, dtype=np.float64))
        missing = np.atleast_1d(np.asarray(self.missing, dtype=np.float64))
        missing = np.zeros(len(bins)) if missing.shape == (1,) and not missing[0] else missing
        if bins.ndim != 2 or missing.shape != (len(bins),) or len(self.weekdays) not in {0, len(bins)}:
            raise DataError(f"counts of shape {bins.shape} do not fit missing ones of shape {missing.shape}.")
        if not all(np.isfinite(one).all() and (one >= 0).all() for one in (bins, missing)):
            raise DataError("a count is below 0, or not a number.")
        object.__setattr__(self, "bins", bins)
        object.__setattr__(self, "missing", missing)

    @property
    def total(self) -> Array:
        """Rows in each bin, all days together."""
        return np.asarray(self.bins.sum(axis=0))

    @property
    def presence(self) -> Array:
        """Rows with and without a value, shape (days, 2)."""
        return np.stack([self.bins.sum(axis=1), np.atleast_1d(self.missing)], axis=1)

    @property
    def strata(self) -> Array:
        """The weekday of each day; `ANY_DAY` where they are not told apart."""
        return np.asarray(self.weekdays) if len(self.weekdays) else np.full(len(self.bins), ANY_DAY)


@dataclass(frozen=True)
class Column:
    """A column's counts then and now, over the same bins.

    Raises:
        DataError: the bins are not the same, or do not fit the edges.
    """

    name: str
    kind: Kind
    reference: Counts | None
    """None: the reference does not know the column."""
    window: Counts | None
    """None: the column is not there any more, or is of another type."""
    edges: Array | None = None
    """Of a numeric one: a value less than its bins, increasing. The first bin is below the first edge."""
    weight: float = 1.0
    """Importance, a share of all."""

    def __post_init__(self) -> None:
        """Checks."""
        widths = {one.bins.shape[1] for one in (self.reference, self.window) if one}
        if len(widths) > 1:
            raise DataError(f"{self.name} has {' and '.join(map(str, sorted(widths)))} bins then and now.")
        if self.edges is not None and widths and len(self.edges) + 1 not in widths:
            raise DataError(f"{self.name} has {len(self.edges)} edges, but {widths.pop()} bins.")
