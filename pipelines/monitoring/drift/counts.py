"""Define the counts of one column in fixed bins, for each day of the reference or of a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipelines.errors import DataError

Array = np.ndarray[Any, Any]
ANY_DAY = 7
"""Number that takes the place of the weekday (0 to 6) if weekdays are not used."""
Kind = Literal["numeric", "category", "label"]
"""Kind of a column that is compared."""


@dataclass(frozen=True)
class Counts:
    """Number of rows in each bin, for each day, oldest first. Without days, rows are treated as independent.

    Raises:
        DataError: a count is below 0 or not a number, or the shapes do not fit. A retry cannot help.
    """

    bins: Array
    """Shape (days, bins), or (bins,) without days. The order of the bins depends on the kind of the column:

    - numeric: below the first edge, between the edges, above the last edge
    - category: any order, but values that the reference does not have ("unseen") come last
    - label: 0, 1
    """
    missing: Array | float = 0.0
    """Number of rows without a value: shape (days,), or one number without days; 0 stands for no such rows."""
    weekdays: Array | tuple[()] = ()
    """Shape (days,), 0 to 6; empty: weekdays are not used."""

    def __post_init__(self) -> None:
        """Check the values, and convert them to arrays with one row for each day."""
        bins = np.atleast_2d(np.asarray(self.bins, dtype=np.float64))
        missing_counts = np.atleast_1d(np.asarray(self.missing, dtype=np.float64))
        missing_counts = (
            np.zeros(len(bins)) if missing_counts.shape == (1,) and not missing_counts[0] else missing_counts
        )
        if bins.ndim != 2 or missing_counts.shape != (len(bins),) or len(self.weekdays) not in {0, len(bins)}:
            raise DataError(
                f"counts of shape {bins.shape} do not fit missing rows of shape {missing_counts.shape}"
                f" and {len(self.weekdays)} weekdays."
            )
        if not all(np.isfinite(counts).all() and (counts >= 0).all() for counts in (bins, missing_counts)):
            raise DataError("a count is below 0 or not a number.")
        object.__setattr__(self, "bins", bins)
        object.__setattr__(self, "missing", missing_counts)

    @property
    def total(self) -> Array:
        """Rows in each bin, summed over the days."""
        return np.asarray(self.bins.sum(axis=0))

    @property
    def presence(self) -> Array:
        """Rows with and without a value, shape (days, 2)."""
        return np.stack([self.bins.sum(axis=1), np.atleast_1d(self.missing)], axis=1)

    @property
    def strata(self) -> Array:
        """The group of each day: its weekday, or `ANY_DAY` if weekdays are not used.

        A day is compared with the other days of its group.
        """
        return np.asarray(self.weekdays) if len(self.weekdays) else np.full(len(self.bins), ANY_DAY)


@dataclass(frozen=True)
class ComparedColumn:
    """Counts of a column in the reference and in the window, in the same bins.

    Raises:
        DataError: the bins are not the same, or do not fit the edges. A retry cannot help.
    """

    name: str
    kind: Kind
    reference: Counts | None
    """None: the reference does not have the column."""
    window: Counts | None
    """None: the window does not have the column, or has it with another type."""
    edges: Array | None = None
    """Edges of the bins of a numeric column, increasing; one fewer than bins. The first bin is below the first edge."""
    weight: float = 1.0
    """Importance of the column. The importances of all features add up to 1; that of a score or a label is 1."""

    def __post_init__(self) -> None:
        """Check that the bins fit each other and the edges."""
        bin_counts = {counts.bins.shape[1] for counts in (self.reference, self.window) if counts}
        if len(bin_counts) > 1:
            raise DataError(
                f"{self.name} has {' and '.join(map(str, sorted(bin_counts)))} bins in the reference and the window."
            )
        if self.edges is not None and bin_counts and len(self.edges) + 1 not in bin_counts:
            raise DataError(f"{self.name} has {len(self.edges)} edges, but {bin_counts.pop()} bins.")
