"""Checks of all values of a column together: aggregates and sets of distinct values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from pipelines.validation.suites import arguments
from pipelines.validation.suites.checks import Answer, TableCheck, to_json_value
from pipelines.validation.suites.row_checks import is_comparable
from pipelines.validation.suites.rows import Rows, list_literals

MAX_DISTINCT = 20
"""Values that a result lists, as in Great Expectations."""


def aggregate(function: str) -> Callable[[arguments.ColumnBounded, Rows], TableCheck | None]:
    """Return the check that an aggregate of DuckDB is in a range."""

    def check(args: arguments.ColumnBounded, rows: Rows) -> TableCheck | None:
        if rows.kind(args.column) not in ("int", "float"):
            return None
        # In pandas the sum of no values is 0, and their minimum and mean do not exist.
        empty_value = 0 if function == "sum" else None
        sql = f"{function}({rows.value(args.column)})"
        return TableCheck([sql], lambda _, values: check_bounds(args, empty_value if values[0] is None else values[0]))

    return check


def spread(args: arguments.ColumnBounded, rows: Rows) -> TableCheck | None:
    """Check that the sample standard deviation is in a range."""
    return _check_in_own_query(args, rows, "stddev_samp")


def median(args: arguments.ColumnBounded, rows: Rows) -> TableCheck | None:
    """Check that the median is in a range."""
    return _check_in_own_query(args, rows, "median")


def distinct_count(args: arguments.ColumnBounded, rows: Rows) -> TableCheck | None:
    """Check that the number of distinct values is in a range."""
    if rows.kind(args.column) == "other":
        return None
    return TableCheck([], lambda rows, _: check_bounds(args, _count_distinct(rows, args.column)))


def distinct_share(args: arguments.ColumnBounded, rows: Rows) -> TableCheck | None:
    """Check that the number of distinct values, divided by that of all values, is in a range."""
    if rows.kind(args.column) == "other":
        return None
    return TableCheck(
        [f"count({rows.value(args.column)})"],
        lambda rows, values: check_bounds(args, _count_distinct(rows, args.column) / values[0] if values[0] else 0),
    )


def distinct_in_set(args: arguments.DistinctSet, rows: Rows) -> TableCheck | None:
    """Check that every value is in a set."""
    return _compare_with_set(args, rows, extra=True)


def distinct_contain_set(args: arguments.DistinctSet, rows: Rows) -> TableCheck | None:
    """Check that every value of a set occurs."""
    return _compare_with_set(args, rows, missing=True)


def distinct_equal_set(args: arguments.DistinctSet, rows: Rows) -> TableCheck | None:
    """Check that the values are exactly those of a set."""
    return _compare_with_set(args, rows, extra=True, missing=True)


def check_bounds(args: arguments.Bounded, value: Any) -> Answer:
    """Check that a number is in a range; null and NaN are not."""
    seen = {"observed_value": to_json_value(value)}
    if value is None or math.isnan(value):
        return False, {"observed_value": None}
    above = args.min_value is None or (value > args.min_value if args.strict_min else value >= args.min_value)
    below = args.max_value is None or (value < args.max_value if args.strict_max else value <= args.max_value)
    return bool(above and below), seen


def _check_in_own_query(args: arguments.ColumnBounded, rows: Rows, function: str) -> TableCheck | None:
    """Check an aggregate in a query of its own: it holds all values in memory, or fails on an infinite one."""
    if rows.kind(args.column) not in ("int", "float"):
        return None

    def finish(rows: Rows, _: Sequence[Any]) -> Answer:
        try:
            return check_bounds(args, rows.query(f"{function}({rows.value(args.column)})")[0][0])
        except duckdb.OutOfRangeException:  # an infinite value, for which pandas computes NaN
            return check_bounds(args, None)

    return TableCheck([], finish)


def _count_distinct(rows: Rows, column: str) -> int:
    return int(rows.query(f"count(DISTINCT {rows.value(column)})")[0][0])


def _compare_with_set(
    args: arguments.DistinctSet, rows: Rows, *, extra: bool = False, missing: bool = False
) -> TableCheck | None:
    if not is_comparable(rows, args.column, args.value_set):
        return None
    wanted, value = list_literals(args.value_set), rows.value(args.column)

    def finish(rows: Rows, _: Sequence[Any]) -> Answer:
        result: dict[str, Any] = {"observed_value": None}
        if extra:
            count, examples = _list_distinct(rows, value, f"{value} NOT IN ({wanted})")
            result |= {"unexpected_count": count, "partial_unexpected_list": examples}
        if missing:
            present = {row[0] for row in rows.query(f"DISTINCT {value}", where=f"{value} IN ({wanted})")}
            missing_values = sorted(set(args.value_set) - present, key=str)
            result |= {"missing_count": len(missing_values), "partial_missing_list": missing_values[:MAX_DISTINCT]}
        return not (result.get("unexpected_count") or result.get("missing_count")), result

    return TableCheck([], finish)


def _list_distinct(rows: Rows, value: str, where: str) -> tuple[int, list[Any]]:
    """Count the distinct values, and list the smallest of them."""
    number = int(rows.query(f"count(DISTINCT {value})", where=where)[0][0])
    least = rows.query(f"DISTINCT {value} AS v", where=where, tail=f"ORDER BY v LIMIT {MAX_DISTINCT}") if number else []
    return number, [to_json_value(row[0]) for row in least]
