"""Compute all measures of a column, each with its effect and p-value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.monitoring.drift import measures, seasonal
from pipelines.monitoring.drift.counts import Array, Column, Counts
from pipelines.monitoring.drift.dispersion import Sample, estimate_null
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult


def summarize_window(day: str, rows: int, columns: Iterable[Column], others: Iterable[Finding] = ()) -> WindowResult:
    """Collect all findings of a window; `others` are the findings of its performance."""
    findings = tuple(finding for column in columns for finding in examine_column(column))
    return WindowResult(day, rows, (*findings, *others))


def examine_column(column: Column) -> tuple[Finding, ...]:
    """Compute the findings of a column. A finding that cannot be measured says why in its note, and is never drift."""
    if column.reference is None:
        return (_build_empty_finding(column, "vanished", "the reference does not have this column"),)
    if column.window is None:
        note = "the column is missing in the window, or has another type"
        return (Finding(column.name, "vanished", 1.0, 0.0, column.weight, note),)
    reference = seasonal.reweight(column.reference, column.window)
    if column.kind == "label":
        return (_measure_rate(column, "label_rate", reference, column.window, reference.bins, column.window.bins),)
    return (
        *_measure_distribution(column, reference, column.window),
        _measure_rate(column, "missing", reference, column.window, reference.presence, column.window.presence),
        *_measure_unseen(column, reference, column.window),
    )


def _build_empty_finding(column: Column, measure: Measure, note: str) -> Finding:
    return Finding(column.name, measure, None, None, column.weight, note)


def _measure_distribution(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    """Measure the change of the distribution: effects over all bins, p-values over pooled bins with enough rows."""
    if not then.total.sum() or not now.total.sum():
        side = "the window" if then.total.sum() else "the reference"
        yield _build_empty_finding(column, "psi", f"{side} has no values")
        return
    groups = measures.pool_bins(then.total, now.total, ordered=column.kind == "numeric")
    pooled = (measures.merge_bins(then.bins, groups), measures.merge_bins(now.bins, groups))
    spread = estimate_null(Sample.from_counts(pooled[0], then.strata), Sample.from_counts(pooled[1], now.strata))
    totals = tuple(days.sum(axis=0) for days in pooled)
    for measure, effect, statistic in _compute_chi_square_measures((then.total, now.total), totals):
        yield Finding(
            column.name, measure, effect, float(spread.quadratic_p_value(np.asarray(statistic))), column.weight
        )
    if column.kind == "numeric":
        yield from _measure_ordered(column, then, now)


def _compute_chi_square_measures(
    all_bins: tuple[Array, ...], pooled: tuple[Array, ...]
) -> Iterator[tuple[Measure, float, float]]:
    """Yield each measure that is asymptotically a chi-square where nothing drifts: name, effect and that chi-square.

    PSI times nm / (n + m) is one (Yurdakul 2018). The Jensen-Shannon divergence, in nats, is near 0 an eighth of it.
    """
    rows = float(measures.scale(*pooled))
    chi_square = float(measures.pearson(*pooled))
    yield "psi", float(measures.psi(*all_bins)), float(measures.psi(*pooled)) * rows
    bits = float(measures.jensen_shannon(*all_bins))
    yield "js", math.sqrt(bits), 8 * math.log(2) * float(measures.jensen_shannon(*pooled)) * rows
    yield "chi_square", math.sqrt(chi_square / sum(float(counts.sum()) for counts in pooled)), chi_square


def _measure_ordered(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    """Measure what needs an order of the bins. Bins are not pooled: the largest distance may lie inside a pool."""
    spread = estimate_null(Sample.from_counts(then.bins, then.strata), Sample.from_counts(now.bins, now.strata))
    distance = float(measures.kolmogorov_smirnov(then.total, now.total))
    p_value = spread.kolmogorov_p_value(distance, float(measures.scale(then.total, now.total)))
    yield Finding(column.name, "ks", distance, p_value, column.weight)
    if column.edges is not None and len(column.edges):
        effect = measures.wasserstein(then.total, now.total, column.edges)
        note = "" if effect is not None else "the reference has only one value"
        yield Finding(column.name, "wasserstein", effect, None, column.weight, note)


def _measure_unseen(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    if column.kind != "category":
        return
    pairs = (np.stack([counts.bins[:, :-1].sum(axis=1), counts.bins[:, -1]], axis=1) for counts in (then, now))
    yield _measure_rate(column, "unseen", then, now, *pairs)


def _measure_rate(column: Column, measure: Measure, then: Counts, now: Counts, first: Array, second: Array) -> Finding:
    """Measure the change of a rate by the score test, with the variance between days.

    Where a cell expects few rows, Fisher's exact test is made too, and the larger p-value is used.

    Args:
        column: the column.
        measure: name of the rate.
        then: counts of the reference.
        now: counts of the window.
        first: rows of the reference without and with the property, shape (days, 2).
        second: the same for the window.
    """
    totals = first.sum(axis=0), second.sum(axis=0)
    if not all(total.sum() for total in totals):
        return _build_empty_finding(column, measure, "there are no rows")
    effect = abs(float(measures.shares(totals[1])[1] - measures.shares(totals[0])[1]))
    spread = estimate_null(Sample.from_counts(first, then.strata), Sample.from_counts(second, now.strata))
    p_value = float(spread.quadratic_p_value(measures.pearson(*totals)))
    if measures.pool_bins(*totals, ordered=True).max() == 0:
        p_value = max(p_value, measures.fisher(*totals))
    return Finding(column.name, measure, effect, p_value, column.weight)
