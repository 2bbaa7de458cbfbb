"""All measures of one column, each with its effect and p-value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.monitoring.drift import measures, seasonal
from pipelines.monitoring.drift.counts import Array, Column, Counts
from pipelines.monitoring.drift.dispersion import Sample, null
from pipelines.monitoring.drift.finding import Finding, Measure, WindowResult


def window(day: str, rows: int, columns: Iterable[Column], others: Iterable[Finding] = ()) -> WindowResult:
    """Everything found in a window; `others` are findings of its performance."""
    return WindowResult(day, rows, tuple(one for column in columns for one in examine(column)) + tuple(others))


def examine(column: Column) -> tuple[Finding, ...]:
    """The findings of a column. What cannot be measured is told as such, and is never drift."""
    if column.reference is None:
        return (_untold(column, "vanished", "the reference does not know this column"),)
    if column.window is None:
        gone = "the column is not there any more, or is of another type"
        return (Finding(column.name, "vanished", 1.0, 0.0, column.weight, gone),)
    reference = seasonal.reweighted(column.reference, column.window)
    if column.kind == "label":
        return (_proportion(column, "label_rate", reference, column.window, reference.bins, column.window.bins),)
    return (
        *_distribution(column, reference, column.window),
        _proportion(column, "missing", reference, column.window, reference.presence, column.window.presence),
        *_unseen(column, reference, column.window),
    )


def _untold(column: Column, measure: Measure, note: str) -> Finding:
    return Finding(column.name, measure, None, None, column.weight, note)


def _distribution(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    """Measures of the whole distribution: effects of all bins, p-values of bins pooled to rows enough."""
    if not then.total.sum() or not now.total.sum():
        side = "the window" if then.total.sum() else "the reference"
        yield _untold(column, "psi", f"{side} has no values")
        return
    groups = measures.pooled(then.total, now.total, ordered=column.kind == "numeric")
    many = (measures.merged(then.bins, groups), measures.merged(now.bins, groups))
    spread = null(Sample.of(many[0], then.strata), Sample.of(many[1], now.strata))
    few = tuple(one.sum(axis=0) for one in many)
    for measure, effect, statistic in _quadratic((then.total, now.total), few):
        yield Finding(column.name, measure, effect, float(spread.quadratic(np.asarray(statistic))), column.weight)
    if column.kind == "numeric":
        yield from _ordered(column, then, now)


def _quadratic(all_bins: tuple[Array, ...], few: tuple[Array, ...]) -> Iterator[tuple[Measure, float, float]]:
    """Each measure that is near no drift a chi-square: its effect, and that chi-square.

    PSI times nm / (n + m): Yurdakul 2018. Jensen-Shannon is near 0 an eighth of it, in nats.
    """
    rows = float(measures.scale(*few))
    chi_square = float(measures.pearson(*few))
    yield "psi", float(measures.psi(*all_bins)), float(measures.psi(*few)) * rows
    bits = float(measures.jensen_shannon(*all_bins))
    yield "js", math.sqrt(bits), 8 * math.log(2) * float(measures.jensen_shannon(*few)) * rows
    yield "chi_square", math.sqrt(chi_square / sum(float(one.sum()) for one in few)), chi_square


def _ordered(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    """Measures that need an order: not of pooled bins, for their largest distance may be inside of one."""
    spread = null(Sample.of(then.bins, then.strata), Sample.of(now.bins, now.strata))
    distance = float(measures.kolmogorov_smirnov(then.total, now.total))
    p_value = spread.kolmogorov(distance, float(measures.scale(then.total, now.total)))
    yield Finding(column.name, "ks", distance, p_value, column.weight)
    if column.edges is not None and len(column.edges):
        effect = measures.wasserstein(then.total, now.total, column.edges)
        note = "" if effect is not None else "the reference has one value only"
        yield Finding(column.name, "wasserstein", effect, None, column.weight, note)


def _unseen(column: Column, then: Counts, now: Counts) -> Iterator[Finding]:
    if column.kind != "category":
        return
    pairs = (np.stack([one.bins[:, :-1].sum(axis=1), one.bins[:, -1]], axis=1) for one in (then, now))
    yield _proportion(column, "unseen", then, now, *pairs)


def _proportion(column: Column, measure: Measure, then: Counts, now: Counts, first: Array, second: Array) -> Finding:
    """The change of a rate; `first` and `second` are rows without and with it, shape (days, 2).

    The score test with the days' spread; where few rows are expected, Fisher's exact one too, and the less sure counts.
    """
    totals = first.sum(axis=0), second.sum(axis=0)
    if not all(one.sum() for one in totals):
        return _untold(column, measure, "there are no rows")
    effect = abs(float(measures.shares(totals[1])[1] - measures.shares(totals[0])[1]))
    spread = null(Sample.of(first, then.strata), Sample.of(second, now.strata))
    p_value = float(spread.quadratic(measures.pearson(*totals)))
    if measures.pooled(*totals, ordered=True).max() == 0:
        p_value = max(p_value, measures.fisher(*totals))
    return Finding(column.name, measure, effect, p_value, column.weight)
