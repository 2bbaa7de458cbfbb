"""A reference of the same season as the window: the same weekdays, and the same weeks of last year."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from pipelines.monitoring.drift.counts import ANY_DAY, Array, Counts

YEAR = timedelta(days=364)
"""Last year's same weekday: 52 weeks."""


def reweighted(reference: Counts, window: Counts) -> Counts:
    """The reference's days with the window's mix of weekdays, scaled to the rows that it is worth (Kish 1965).

    Unchanged where the reference lacks one of the window's weekdays, or nothing distinguishes the days.
    """
    then, now = (one.presence.sum(axis=1) for one in (reference, window))
    factor = _factors(then, reference.strata, now, window.strata)
    if factor is None:
        return reference
    keep = factor > 0
    times = (factor * (factor @ then) / (factor**2 @ then))[keep]
    missing = np.asarray(reference.missing)[keep] * times
    return Counts(reference.bins[keep] * times[:, np.newaxis], missing, reference.strata[keep])


def _factors(then: Array, weekdays: Array, now: Array, now_weekdays: Array) -> Array | None:
    """How often each row of a reference's day counts; None where it cannot be told, or all count the same."""
    rows_then, rows_now = (
        np.bincount(days, rows, minlength=ANY_DAY + 1) for days, rows in ((weekdays, then), (now_weekdays, now))
    )
    if not rows_now.sum() or (rows_then[rows_now > 0] == 0).any():
        return None
    factor = np.divide(rows_now, rows_then, out=np.zeros(len(rows_now)), where=rows_then > 0)[weekdays]
    return None if np.allclose(factor, factor[0], rtol=1e-12) else np.asarray(factor)


def same_weeks(reference: Sequence[date], window: Sequence[date], around_weeks: int = 2, least_days: int = 28) -> Array:
    """Which of the reference's days to compare with, as booleans: last year's around the window, or all of them.

    Args:
        reference: its days.
        window: its days.
        around_weeks: how far from the window's days, a year ago, a day may be.
        least_days: with fewer such days all are taken: of too few neither shares nor their spread can be told.
    """
    margin = timedelta(weeks=around_weeks)
    first, last = (min(window) - YEAR - margin, max(window) - YEAR + margin) if window else (date.max, date.min)
    chosen = np.array([first <= day <= last for day in reference], dtype=bool)
    return chosen if chosen.sum() >= least_days else np.ones(len(reference), dtype=bool)
