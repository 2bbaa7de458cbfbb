"""Find out whether a day ends early: whether its last hours have far fewer rows than those of other days.

If the data of a day was truncated, the end of the day is missing. So the rows of the whole day and of its last half,
quarter, tenth and twentieth are counted. They are compared with the same hours of known days: the published days around
it. "The last tenth" begins at the time of day after which a tenth of the known days' rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SHARES = (1.0, 0.5, 0.25, 0.1, 0.05)
"""Shares of the known days' rows. For each share, the rows of the judged day are counted from the time of day after
which this share of the known days' rows come."""
FULL_WEEK = 7
"""Smallest number of known days with which `min_ratio` applies. Fewer days may all be working days, while the judged
day is a Sunday."""
FIRST_WEEK_RATIO = 0.1
"""Largest `min_ratio` that applies if there are fewer known days than `FULL_WEEK`."""
DAYS_PER_IGNORED_DAY = 14
"""Number of known days for each day that is ignored. The days with the fewest rows are ignored: a person may have
published a day although its end is missing."""
MAX_P_VALUE = 0.01
"""An early end has a smaller p-value: the probability that a usual day has so few rows by chance."""


@dataclass(frozen=True)
class EarlyEnd:
    """The hours of a day that have too few rows."""

    first_bin: int
    """Bin of the time of day from which the rows were counted."""
    rows: int
    """Rows of the day from this time on; with a tolerance, from that many bins earlier."""
    usual_rows: int
    """Smallest number of rows of a known day from this time on, apart from the ignored days."""


def find_early_end(
    counts: np.ndarray, known_counts: Sequence[np.ndarray], min_ratio: float, tolerance_bins: int = 0
) -> EarlyEnd | None:
    """Return the hours at the end of the day that have too few rows; None if there are none.

    Args:
        counts: rows of the day in each bin of its time, in order.
        known_counts: the same counts of each known day, in the same bins.
        min_ratio: smallest ratio of the day's rows to the usual rows (see `EarlyEnd.usual_rows`), 0 to 1.
        tolerance_bins: bins by which the day's clock may differ from that of the known days.
    """
    if not known_counts:
        return None
    if len(known_counts) < FULL_WEEK:
        min_ratio = min(min_ratio, FIRST_WEEK_RATIO)
    rows_to_end = _count_to_end(counts)
    known_rows_to_end = np.array([_count_to_end(day_counts) for day_counts in known_counts])
    known_total = known_rows_to_end.sum(axis=0)
    for share in SHARES:
        first_bin = int(np.argmax(known_total <= share * known_total[0]))
        usual_rows = int(np.sort(known_rows_to_end[:, first_bin])[len(known_counts) // DAYS_PER_IGNORED_DAY])
        rows = int(rows_to_end[max(first_bin - tolerance_bins, 0)])
        if rows < min_ratio * usual_rows and _compute_poisson_p_value(rows, usual_rows) < MAX_P_VALUE:
            return EarlyEnd(first_bin, rows, usual_rows)
    return None


def _count_to_end(counts: np.ndarray) -> np.ndarray:
    """Return for each bin the number of rows in it and in all later ones."""
    return np.cumsum(counts[::-1])[::-1]


def _compute_poisson_p_value(rows: int, rate: float) -> float:
    """Return the probability of at most `rows` events if `rate` events are expected (Poisson distribution)."""
    from scipy.special import pdtr  # most validations do not need it, and it takes long to import

    return float(pdtr(rows, rate))
