"""Match the reference to the season of the window: the same weekdays, and the same weeks a year before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from pipelines.monitoring.drift.counts import ANY_DAY, Array, Counts

YEAR = timedelta(days=364)
"""52 weeks: the same weekday a year before."""


def reweight(reference: Counts, window: Counts) -> Counts:
    """Weight the reference's days so that each weekday has the same share of the rows as in the window.

    The sum of the weighted rows is the effective sample size (Kish 1965). Days of a weekday that the window lacks are
    left out. The reference is returned unchanged if it lacks a weekday of the window, if the window has no rows, or if
    all weights are equal.
    """
    reference_rows, window_rows = (counts.presence.sum(axis=1) for counts in (reference, window))
    weights = _compute_day_weights(reference_rows, reference.strata, window_rows, window.strata)
    if weights is None:
        return reference
    is_used = weights > 0
    scaled_weights = (weights * (weights @ reference_rows) / (weights**2 @ reference_rows))[is_used]
    missing_counts = np.asarray(reference.missing)[is_used] * scaled_weights
    return Counts(reference.bins[is_used] * scaled_weights[:, np.newaxis], missing_counts, reference.strata[is_used])


def _compute_day_weights(
    reference_rows: Array, reference_weekdays: Array, window_rows: Array, window_weekdays: Array
) -> Array | None:
    """Compute the weight of the rows of each reference day; None if a weight is undefined, or if all are equal."""
    reference_sums, window_sums = (
        np.bincount(weekdays, rows, minlength=ANY_DAY + 1)
        for weekdays, rows in ((reference_weekdays, reference_rows), (window_weekdays, window_rows))
    )
    if not window_sums.sum() or (reference_sums[window_sums > 0] == 0).any():
        return None
    weight_by_weekday = np.divide(window_sums, reference_sums, out=np.zeros(len(window_sums)), where=reference_sums > 0)
    weights = weight_by_weekday[reference_weekdays]
    return None if np.allclose(weights, weights[0], rtol=1e-12) else np.asarray(weights)


def select_same_weeks(
    reference: Sequence[date], window: Sequence[date], margin_weeks: int = 2, min_days: int = 28
) -> Array:
    """Select the reference's days to compare with: the same weeks a year before, or else all days.

    Args:
        reference: days of the reference.
        window: days of the window.
        margin_weeks: number of weeks that are added on each side of the same weeks a year before.
        min_days: if fewer days would be selected, all days are selected: the variance of a few days is not reliable.

    Returns:
        Whether each day is selected: booleans, shape (days of the reference,).
    """
    margin = timedelta(weeks=margin_weeks)
    first, last = (min(window) - YEAR - margin, max(window) - YEAR + margin) if window else (date.max, date.min)
    is_selected = np.array([first <= day <= last for day in reference], dtype=bool)
    return is_selected if is_selected.sum() >= min_days else np.ones(len(reference), dtype=bool)
