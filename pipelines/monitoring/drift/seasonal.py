"""Match the reference to the season of the window: the same weekdays, and the same weeks of last year."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from pipelines.monitoring.drift.counts import ANY_DAY, Array, Counts

YEAR = timedelta(days=364)
"""52 weeks: the same weekday a year before."""


def reweight(reference: Counts, window: Counts) -> Counts:
    """Weight the reference's days to the window's mix of weekdays, scaled to the effective number of rows (Kish 1965).

    Returns the reference unchanged where it lacks a weekday of the window, or where all weights are equal.
    """
    reference_rows, window_rows = (counts.presence.sum(axis=1) for counts in (reference, window))
    factor = _compute_day_weights(reference_rows, reference.strata, window_rows, window.strata)
    if factor is None:
        return reference
    keep = factor > 0
    times = (factor * (factor @ reference_rows) / (factor**2 @ reference_rows))[keep]
    missing = np.asarray(reference.missing)[keep] * times
    return Counts(reference.bins[keep] * times[:, np.newaxis], missing, reference.strata[keep])


def _compute_day_weights(
    reference_rows: Array, reference_weekdays: Array, window_rows: Array, window_weekdays: Array
) -> Array | None:
    """Compute the weight of the rows of each reference day; None where it is undefined, or the same for all."""
    reference_sums, window_sums = (
        np.bincount(weekdays, rows, minlength=ANY_DAY + 1)
        for weekdays, rows in ((reference_weekdays, reference_rows), (window_weekdays, window_rows))
    )
    if not window_sums.sum() or (reference_sums[window_sums > 0] == 0).any():
        return None
    factor_by_weekday = np.divide(window_sums, reference_sums, out=np.zeros(len(window_sums)), where=reference_sums > 0)
    factor = factor_by_weekday[reference_weekdays]
    return None if np.allclose(factor, factor[0], rtol=1e-12) else np.asarray(factor)


def select_same_weeks(
    reference: Sequence[date], window: Sequence[date], around_weeks: int = 2, least_days: int = 28
) -> Array:
    """Select the reference's days to compare with: the same weeks a year before, or else all days.

    Args:
        reference: days of the reference.
        window: days of the window.
        around_weeks: weeks that a day may lie before or after the window, a year before.
        least_days: with fewer such days all days are selected: too few give neither shares nor their variance.

    Returns:
        Booleans, shape (days of the reference,).
    """
    margin = timedelta(weeks=around_weeks)
    first, last = (min(window) - YEAR - margin, max(window) - YEAR + margin) if window else (date.max, date.min)
    chosen = np.array([first <= day <= last for day in reference], dtype=bool)
    return chosen if chosen.sum() >= least_days else np.ones(len(reference), dtype=bool)
