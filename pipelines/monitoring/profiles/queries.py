"""Build the queries of a profile as ibis expressions, which DuckDB and Spark both execute.

Together they read each column once, and the score twice.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import reduce
from operator import add

import ibis

from pipelines.monitoring.profiles.reference import SCORE_EDGES, Category, Number

MAX = repr(sys.float_info.max)
DAY = "counted_day"
"""Column with the day, in results that are by day."""


@ibis.udf.agg.builtin  # type: ignore[untyped-decorator]
def count_if(condition: bool) -> int:  # type: ignore[empty-body]
    """Count the rows where the condition is true. This is five times faster than counting with a filter."""


def count_rows(rows: ibis.Table, by: str) -> ibis.Table:
    """Count the rows of each day: column `rows`."""
    return rows.aggregate(rows.count().name("rows"), by=_select_day(rows, by))


def count_numbers(rows: ibis.Table, columns: Sequence[Number], by: str = "", *, finite: bool = False) -> ibis.Table:
    """Count and sum the values of number columns, in one row, or in one row for each day.

    The result has `rows`, and for the column at position i `i.known`, `i.n`, `i.s1`, `i.s2`, `i.minimum`, `i.maximum`
    and the counts named by `name_edge_counts`. Both engines compare alike: NaN is greater than every number.

    Args:
        rows: the table to count.
        columns: number columns of the table.
        by: column with the date; empty: all days together.
        finite: whether to assume that all values are finite, which halves the cost of the sums. Where a column has
            other values, its minimum or maximum is not finite, and its `known`, `n` and sums are wrong.
    """
    measures: dict[str, ibis.Value] = {"rows": rows.count()}
    for place, column in enumerate(columns):
        measures |= {f"{place}.{name}": value for name, value in _measure_number(rows, column, finite).items()}
    return rows.aggregate(by=_select_day(rows, by), **measures)


def name_edge_counts(column: Number) -> list[str]:
    """Name the cumulative counts of a column: values below each edge but the last, then values up to the last edge."""
    return [*(f"below.{place}" for place in range(len(column.edges) - 1)), "upto"] if column.edges else []


def _measure_number(rows: ibis.Table, column: Number, finite: bool) -> dict[str, ibis.Value]:
    x = rows[column.name].cast("float64")
    values = x if finite else _replace_infinite_by_null(x)
    differences = values - _build_literal(column.center)
    edges = [_build_literal(edge) for edge in column.edges]
    below = [*(x < edge for edge in edges[:-1]), *(x <= edge for edge in edges[-1:])]
    counts = {name: count_if(is_below) for name, is_below in zip(name_edge_counts(column), below, strict=True)}
    sums = {"s1": differences.sum(), "s2": (differences * differences).sum()}
    extremes = {"minimum": values.min(), "maximum": values.max()}
    known = x.count() if finite else count_if(x <= _build_literal(math.inf))
    return {"known": known, "n": known if finite else values.count(), **counts, **sums, **extremes}


def count_categories(rows: ibis.Table, columns: Sequence[Category], by: str = "") -> ibis.Table:
    """Count the rows of each value of each column, and of each day where `by` names a date column.

    The result has `column` (position of the column), `value` and `times`.
    """
    return ibis.union(*[_count_category(rows, place, column.name, by) for place, column in enumerate(columns)])


def _count_category(rows: ibis.Table, place: int, name: str, by: str) -> ibis.Table:
    keys = [*_select_day(rows, by), rows[name].cast("string").name("value")]
    counted = rows.aggregate(rows.count().name("times"), by=keys)
    days = [counted[DAY]] if by else []
    return counted.select(*days, column=ibis.literal(place, "int64"), value=counted.value, times=counted.times)


def count_scores_by_label(rows: ibis.Table, score: str, label: str, by: str = "") -> ibis.Table:
    """Count the rows of each score bin and label.

    The result has `bin`, `label`, `times` and `total`, the sum of the finite scores.

    Args:
        rows: the table to count.
        score: column of the score; empty where there is none, and then `bin` is null.
        label: column of the label; empty where there is none, and then `label` is null.
        by: column with the date; empty: all days together.
    """
    x = _replace_nan_by_null(rows[score]) if score else ibis.null("float64")
    passed = [x >= _build_literal(edge) for edge in SCORE_EDGES[:-1]] + [x > _build_literal(SCORE_EDGES[-1])]
    place = reduce(add, [is_passed.cast("int64") for is_passed in passed])
    truth = _cast_label(rows[label]) if label else ibis.null("boolean")
    cells = rows.select(*_select_day(rows, by), bin=place, label=truth, x=_replace_infinite_by_null(x))
    return cells.group_by(*([DAY] if by else []), "bin", "label").aggregate(
        times=lambda group: group.count(), total=lambda group: group.x.sum()
    )


def _select_day(rows: ibis.Table, by: str) -> list[ibis.Value]:
    return [rows[by].cast("date").name(DAY)] if by else []


def _replace_infinite_by_null(x: ibis.Value) -> ibis.Value:
    """Replace infinite values and NaN by null."""
    most = ibis.literal(MAX).cast("float64")
    return x.between(-most, most).ifelse(x, ibis.null("float64"))


def _build_literal(number: float) -> ibis.Value:
    """Build a literal without loss: DuckDB 2.0 and Spark 4.0 read 17 digits as a decimal, and lose the last bit."""
    return ibis.literal(repr(number)).cast("float64")


def _replace_nan_by_null(column: ibis.Value) -> ibis.Value:
    x = column.cast("float64")
    return x.isnan().ifelse(ibis.null("float64"), x)


def _cast_label(column: ibis.Value) -> ibis.Value:
    return column if column.type().is_boolean() else _replace_nan_by_null(column) != 0


def sample_numbers(rows: ibis.Table, columns: Sequence[str], share: float) -> ibis.Table:
    """Select number columns of a random sample of the rows; `share` is 0 to 1, and 1 selects all rows."""
    sample = rows if share >= 1 else rows.sample(share, method="row")
    return sample.select(**{name: sample[name].cast("float64") for name in columns})
