"""Make checks of all values of a column together: aggregates and sets of distinct values.

A function returns None if only Great Expectations can evaluate the expectation, because of the type of the column or
the values of the set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import CheckResult, NeedsGxError, TableCheck, to_json_value
from pipelines.validation.evaluators.row_checks import is_comparable
from pipelines.validation.evaluators.rows import Rows, list_literals

MAX_INTEGER = 2**63 - 1
"""Largest integer of 64 bits."""
MAX_DISTINCT = 20
"""Maximum number of values that a result lists, as in Great Expectations."""


def build_aggregate_check_maker(function: str) -> Callable[[arguments.AggregateRange, Rows], TableCheck | None]:
    """Return a function that makes the check of an aggregate: whether its value is in a range.

    `function` is the name of the aggregate in DuckDB, such as `sum`.
    """

    def make_aggregate_check(args: arguments.AggregateRange, rows: Rows) -> TableCheck | None:
        if rows.get_kind(args.column) not in ("int", "float"):
            return None
        # In pandas the sum of no values is 0, and their minimum and mean do not exist.
        empty_value = 0 if function == "sum" else None
        sql = f"{function}({rows.build_value_sql(args.column)})"

        def compute_result(_: Rows, values: Sequence[Any]) -> CheckResult:
            value = empty_value if values[0] is None else values[0]
            if isinstance(value, int) and abs(value) > MAX_INTEGER:
                raise NeedsGxError  # pandas' sum of integers has 64 bits
            return check_bounds(args, value)

        return TableCheck([sql], compute_result)

    return make_aggregate_check


def make_standard_deviation_check(args: arguments.AggregateRange, rows: Rows) -> TableCheck | None:
    """Make the check that the sample standard deviation is in a range."""
    return _make_own_query_check(args, rows, _compute_standard_deviation)


def make_median_check(args: arguments.AggregateRange, rows: Rows) -> TableCheck | None:
    """Make the check that the median is in a range."""
    return _make_own_query_check(args, rows, _compute_median)


def make_distinct_count_check(args: arguments.DistinctCountRange, rows: Rows) -> TableCheck | None:
    """Make the check that the number of distinct values is in a range."""
    if rows.get_kind(args.column) == "other":
        return None
    return TableCheck(
        aggregates=[], compute_result=lambda rows, _: check_bounds(args, _count_distinct(rows, args.column))
    )


def make_distinct_share_check(args: arguments.AggregateRange, rows: Rows) -> TableCheck | None:
    """Make the check that the ratio of distinct values to all values is in a range. Missing values do not count."""
    if rows.get_kind(args.column) == "other":
        return None
    return TableCheck(
        [f"count({rows.build_value_sql(args.column)})"],
        lambda rows, values: check_bounds(args, _count_distinct(rows, args.column) / values[0] if values[0] else 0),
    )


def make_distinct_in_set_check(args: arguments.DistinctValueSet, rows: Rows) -> TableCheck | None:
    """Make the check that every value is in a set."""
    return _make_set_check(args, rows, forbids_others=True)


def make_distinct_contain_set_check(args: arguments.DistinctValueSet, rows: Rows) -> TableCheck | None:
    """Make the check that every value of a set occurs."""
    return _make_set_check(args, rows, requires_all=True)


def make_distinct_equal_set_check(args: arguments.DistinctValueSet, rows: Rows) -> TableCheck | None:
    """Make the check that the values are exactly those of a set."""
    return _make_set_check(args, rows, forbids_others=True, requires_all=True)


def check_bounds(args: arguments.RangeArguments, value: Any) -> CheckResult:
    """Check that a number is in a range. Null and NaN are in no range."""
    result = {"observed_value": to_json_value(value)}
    if value is None or math.isnan(value):
        return False, {"observed_value": None}
    is_above_minimum = args.min_value is None or (
        value > args.min_value if args.strict_min else value >= args.min_value
    )
    is_below_maximum = args.max_value is None or (
        value < args.max_value if args.strict_max else value <= args.max_value
    )
    return bool(is_above_minimum and is_below_maximum), result


def _make_own_query_check(
    args: arguments.AggregateRange, rows: Rows, compute: Callable[[Rows, str], float | None]
) -> TableCheck | None:
    """Make the check of an aggregate that needs its own query.

    The median needs its own query because it sorts the rows. The standard deviation needs one because DuckDB raises an
    error for an infinite value.
    """
    if rows.get_kind(args.column) not in ("int", "float"):
        return None
    return TableCheck(
        aggregates=[],
        compute_result=lambda rows, _: check_bounds(args, compute(rows, rows.build_value_sql(args.column))),
    )


def _compute_standard_deviation(rows: Rows, value_sql: str) -> float | None:
    try:
        deviation: float | None = rows.query(f"stddev_samp({value_sql})")[0][0]
    except duckdb.OutOfRangeException:  # an infinite value, for which pandas computes NaN
        return None
    return deviation


def _compute_median(rows: Rows, value_sql: str) -> float | None:
    """Compute the median by a sort, which DuckDB can do on disk. DuckDB's own median holds all values in memory."""
    count = rows.query(f"count({value_sql})")[0][0]
    if not count:
        return None
    tail = f"ORDER BY v LIMIT {2 - count % 2} OFFSET {(count - 1) // 2}"
    middle_rows = rows.query(f"{value_sql} AS v", where=f"{value_sql} IS NOT NULL", tail=tail)
    low, high = float(middle_rows[0][0]), float(middle_rows[-1][0])
    return low if low == high else low + (high - low) / 2


def _count_distinct(rows: Rows, column: str) -> int:
    return int(rows.query(f"count(DISTINCT {rows.build_value_sql(column)})")[0][0])


def _make_set_check(
    args: arguments.DistinctValueSet, rows: Rows, *, forbids_others: bool = False, requires_all: bool = False
) -> TableCheck | None:
    """Make the check of a set of values.

    Args:
        args: the column and the set.
        rows: rows to check.
        forbids_others: whether the column may have no other values than those of the set.
        requires_all: whether every value of the set must occur in the column.
    """
    if not is_comparable(rows, args.column, args.value_set):
        return None
    literals, value_sql = list_literals(args.value_set), rows.build_value_sql(args.column)

    def compute_result(rows: Rows, _: Sequence[Any]) -> CheckResult:
        result: dict[str, Any] = {"observed_value": None}
        if forbids_others:
            count, examples = _list_distinct(rows, value_sql, f"{value_sql} NOT IN ({literals})")
            result |= {"unexpected_count": count, "partial_unexpected_list": examples}
        if requires_all:
            present_values = {
                row[0] for row in rows.query(f"DISTINCT {value_sql}", where=f"{value_sql} IN ({literals})")
            }
            missing_values = sorted(set(args.value_set) - present_values, key=str)
            result |= {"missing_count": len(missing_values), "partial_missing_list": missing_values[:MAX_DISTINCT]}
        return not (result.get("unexpected_count") or result.get("missing_count")), result

    return TableCheck(aggregates=[], compute_result=compute_result)


def _list_distinct(rows: Rows, value_sql: str, where: str) -> tuple[int, list[Any]]:
    """Return the number of distinct values that meet the condition, and the `MAX_DISTINCT` smallest of them."""
    count = int(rows.query(f"count(DISTINCT {value_sql})", where=where)[0][0])
    smallest_values = (
        rows.query(f"DISTINCT {value_sql} AS v", where=where, tail=f"ORDER BY v LIMIT {MAX_DISTINCT}") if count else []
    )
    return count, [to_json_value(row[0]) for row in smallest_values]
