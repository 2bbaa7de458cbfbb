"""Measure how each column of a window differs from the reference: one finding (effect, p-value) for each measure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.monitoring.drift import distances, seasonal
from pipelines.monitoring.drift.counts import Array, ComparedColumn, Counts
from pipelines.monitoring.drift.dispersion import Sample, estimate_null_distribution
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult


def summarize_window(
    day: str, rows: int, columns: Iterable[ComparedColumn], performance_findings: Iterable[Finding] = ()
) -> WindowResult:
    """Compute the findings of the columns of a window, and add the given findings about performance.

    Args:
        day: last day of the window, YYYY-MM-DD.
        rows: number of rows of the window.
        columns: columns to compare.
        performance_findings: findings to add, already computed.
    """
    findings = tuple(finding for column in columns for finding in examine_column(column))
    return WindowResult(day, rows, (*findings, *performance_findings))


def examine_column(column: ComparedColumn) -> tuple[Finding, ...]:
    """Compute the findings of a column. If a measure cannot be computed, the finding's note says why."""
    if column.reference is None:
        return (_build_empty_finding(column, "missing_column", "the reference does not have this column"),)
    if column.window is None:
        note = "the column is missing in the window, or has another type"
        return (Finding(column.name, "missing_column", effect=1.0, p_value=0.0, weight=column.weight, note=note),)
    reference = seasonal.reweight(column.reference, column.window)
    if column.kind == "label":
        return (_measure_rate(column, "label_rate", reference, column.window, reference.bins, column.window.bins),)
    return (
        *_measure_distribution(column, reference, column.window),
        _measure_rate(column, "missing", reference, column.window, reference.presence, column.window.presence),
        *_measure_unseen(column, reference, column.window),
    )


def _build_empty_finding(column: ComparedColumn, measure: Measure, note: str) -> Finding:
    return Finding(column.name, measure, effect=None, p_value=None, weight=column.weight, note=note)


def _measure_distribution(column: ComparedColumn, reference: Counts, window: Counts) -> Iterator[Finding]:
    """Measure the change of the distribution: effects over all bins, p-values over pooled bins with enough rows."""
    if not reference.total.sum() or not window.total.sum():
        side = "the window" if reference.total.sum() else "the reference"
        yield _build_empty_finding(column, "psi", f"{side} has no values")
        return
    groups = distances.pool_bins(reference.total, window.total, is_ordered=column.kind == "numeric")
    pooled_counts = (distances.merge_bins(reference.bins, groups), distances.merge_bins(window.bins, groups))
    distribution = estimate_null_distribution(
        Sample.from_counts(pooled_counts[0], reference.strata), Sample.from_counts(pooled_counts[1], window.strata)
    )
    pooled_totals = tuple(day_counts.sum(axis=0) for day_counts in pooled_counts)
    for measure, effect, statistic in _compute_chi_square_measures((reference.total, window.total), pooled_totals):
        yield Finding(
            column.name,
            measure,
            effect,
            float(distribution.compute_chi_square_p_value(np.asarray(statistic))),
            column.weight,
        )
    if column.kind == "numeric":
        yield from _measure_ordered_bins(column, reference, window)


def _compute_chi_square_measures(
    all_bins: tuple[Array, ...], pooled_bins: tuple[Array, ...]
) -> Iterator[tuple[Measure, float, float]]:
    """Yield the measures that have an asymptotic chi-square test: name, effect, and test statistic.

    The statistic of PSI is PSI times n m / (n + m), where n and m are the rows of the reference and of the window
    (Yurdakul 2018). Near 0, PSI is 8 times the Jensen-Shannon divergence in nats, so the statistic of the divergence
    uses 8 times the divergence in place of PSI.

    Args:
        all_bins: counts of the reference and of the window in all bins, for the effects.
        pooled_bins: the same counts in pooled bins, for the statistics.
    """
    sample_factor = float(distances.compute_sample_factor(*pooled_bins))
    chi_square = float(distances.compute_chi_square(*pooled_bins))
    yield "psi", float(distances.compute_psi(*all_bins)), float(distances.compute_psi(*pooled_bins)) * sample_factor
    divergence_bits = float(distances.compute_jensen_shannon(*all_bins))
    yield (
        "js",
        math.sqrt(divergence_bits),
        8 * math.log(2) * float(distances.compute_jensen_shannon(*pooled_bins)) * sample_factor,
    )
    yield "chi_square", math.sqrt(chi_square / sum(float(counts.sum()) for counts in pooled_bins)), chi_square


def _measure_ordered_bins(column: ComparedColumn, reference: Counts, window: Counts) -> Iterator[Finding]:
    """Compute the measures that need ordered bins. Bins are not pooled: pooling could hide the largest distance."""
    distribution = estimate_null_distribution(
        Sample.from_counts(reference.bins, reference.strata), Sample.from_counts(window.bins, window.strata)
    )
    distance = float(distances.compute_ks_distance(reference.total, window.total))
    p_value = distribution.compute_ks_p_value(
        distance, float(distances.compute_sample_factor(reference.total, window.total))
    )
    yield Finding(column.name, "ks", distance, p_value, column.weight)
    if column.edges is not None and len(column.edges):
        effect = distances.compute_wasserstein(reference.total, window.total, column.edges)
        note = "" if effect is not None else "all values of the reference are in one bin"
        yield Finding(column.name, "wasserstein", effect, p_value=None, weight=column.weight, note=note)


def _measure_unseen(column: ComparedColumn, reference: Counts, window: Counts) -> Iterator[Finding]:
    """Measure the change of the share of values that the reference does not have; categories only."""
    if column.kind != "category":
        return
    rows_by_side = (
        np.stack([counts.bins[:, :-1].sum(axis=1), counts.bins[:, -1]], axis=1) for counts in (reference, window)
    )
    yield _measure_rate(column, "unseen", reference, window, *rows_by_side)


def _measure_rate(
    column: ComparedColumn,
    measure: Measure,
    reference: Counts,
    window: Counts,
    reference_rows: Array,
    window_rows: Array,
) -> Finding:
    """Measure the change of a rate by the score test, corrected for within-day correlation.

    If a cell of the 2 x 2 table has few expected rows, Fisher's exact test is computed too, and the larger p-value is
    used.

    Args:
        column: the column.
        measure: name of the rate.
        reference: counts of the reference.
        window: counts of the window.
        reference_rows: rows of the reference without and with the property whose rate is measured, shape (days, 2).
        window_rows: the same rows of the window.
    """
    totals = reference_rows.sum(axis=0), window_rows.sum(axis=0)
    if not all(total.sum() for total in totals):
        return _build_empty_finding(column, measure, "there are no rows")
    effect = abs(float(distances.compute_shares(totals[1])[1] - distances.compute_shares(totals[0])[1]))
    distribution = estimate_null_distribution(
        Sample.from_counts(reference_rows, reference.strata), Sample.from_counts(window_rows, window.strata)
    )
    p_value = float(distribution.compute_chi_square_p_value(distances.compute_chi_square(*totals)))
    if distances.pool_bins(*totals, is_ordered=True).max() == 0:  # one group: a cell has few expected rows
        p_value = max(p_value, distances.compute_fisher_p_value(*totals))
    return Finding(column.name, measure, effect, p_value, column.weight)
