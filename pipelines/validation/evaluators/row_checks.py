"""Make checks of each row, as SQL conditions.

A function returns None if only Great Expectations can evaluate the expectation, because of the types of the columns or
the values of the kwargs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import RowCheck
from pipelines.validation.evaluators.patterns import build_match_sql
from pipelines.validation.evaluators.rows import Rows, list_literals, to_literal

MAX_EXACT_INTEGER = 2**53
"""Largest integer up to which a float can hold every integer exactly."""
_NUMBER_KINDS = ("int", "float")


def make_not_null_check(args: arguments.ValueArguments, rows: Rows) -> RowCheck:
    """Make the check that no value is missing."""
    return RowCheck(
        [args.column],
        judged_sql="TRUE",
        unexpected_sql=f"{rows.build_value_sql(args.column)} IS NULL",
        mostly=args.mostly,
        is_about_missing=True,
    )


def make_null_check(args: arguments.ValueArguments, rows: Rows) -> RowCheck:
    """Make the check that every value is missing."""
    return RowCheck(
        [args.column],
        judged_sql="TRUE",
        unexpected_sql=f"{rows.build_value_sql(args.column)} IS NOT NULL",
        mostly=args.mostly,
        is_about_missing=True,
    )


def make_range_check(args: arguments.ValueRange, rows: Rows) -> RowCheck | None:
    """Make the check that every value is in a range."""
    bounds = [_build_bound_sql(rows.get_kind(args.column), value) for value in (args.min_value, args.max_value)]
    if "" in bounds or (None not in bounds and args.min_value > args.max_value):  # type: ignore[operator]
        return None
    return _make_value_check(args, rows, _build_range_condition(rows.build_value_sql(args.column), args, *bounds))


def make_set_check(args: arguments.ValueSet, rows: Rows) -> RowCheck | None:
    """Make the check that every value is in a set."""
    if not is_comparable(rows, args.column, args.value_set):
        return None
    return _make_value_check(args, rows, f"{rows.build_value_sql(args.column)} IN ({list_literals(args.value_set)})")


def make_excluded_set_check(args: arguments.ValueSet, rows: Rows) -> RowCheck | None:
    """Make the check that no value is in a set."""
    if not is_comparable(rows, args.column, args.value_set):
        return None
    return _make_value_check(
        args, rows, f"{rows.build_value_sql(args.column)} NOT IN ({list_literals(args.value_set)})"
    )


def make_length_range_check(args: arguments.LengthRange, rows: Rows) -> RowCheck | None:
    """Make the check that the length of every value is in a range."""
    bounds = [None if value is None else to_literal(value) for value in (args.min_value, args.max_value)]
    if rows.get_kind(args.column) != "text" or bounds == [None, None]:
        return None
    return _make_value_check(
        args, rows, _build_range_condition(f"length({rows.build_value_sql(args.column)})", args, *bounds)
    )


def make_length_check(args: arguments.ExactLength, rows: Rows) -> RowCheck | None:
    """Make the check that every value has a given length."""
    if rows.get_kind(args.column) != "text":
        return None
    return _make_value_check(args, rows, f"length({rows.build_value_sql(args.column)}) = {args.value}")


def make_pattern_check(args: arguments.Pattern, rows: Rows) -> RowCheck | None:
    """Make the check that a regular expression is found in every value."""
    condition = _build_match_condition(args, rows)
    return _make_value_check(args, rows, condition) if condition else None


def make_excluded_pattern_check(args: arguments.ExcludedPattern, rows: Rows) -> RowCheck | None:
    """Make the check that a regular expression is found in no value."""
    condition = _build_match_condition(args, rows)
    return _make_value_check(args, rows, f"NOT {condition}") if condition else None


def make_equal_pair_check(args: arguments.ColumnPair, rows: Rows) -> RowCheck | None:
    """Make the check that both columns have the same value. A missing value is not equal to any value."""
    return _make_pair_check(args, rows, "=")


def make_ordered_pair_check(args: arguments.OrderedPair, rows: Rows) -> RowCheck | None:
    """Make the check that the first column is greater than the second, or equal if `or_equal` is true.

    A missing value is not greater than any value.
    """
    return _make_pair_check(args, rows, ">=" if args.or_equal else ">")


def make_different_values_check(args: arguments.SeveralColumns, rows: Rows) -> RowCheck | None:
    """Make the check that the columns have different values within a row. Missing values are equal to each other."""
    values = [rows.build_value_sql(column) for column in args.column_list]
    if len({rows.get_kind(column) for column in args.column_list}) > 1 or "other" in map(
        rows.get_kind, args.column_list
    ):
        return None
    equality_sql = (
        " OR ".join(f"{value} IS NOT DISTINCT FROM {other_value}" for value, other_value in combinations(values, 2))
        or "FALSE"
    )
    judged_sql = build_judged_sql(values, args.ignore_row_if)
    return RowCheck(
        args.column_list, judged_sql, f"({judged_sql} AND ({equality_sql}))", args.mostly, has_mapping_examples=True
    )


def build_judged_sql(values: list[str], ignore_row_if: str) -> str:
    """Return the SQL condition that a row is judged.

    Args:
        values: SQL expressions of the values of the row.
        ignore_row_if: which rows are not judged: the kwarg of the expectation.
    """
    if ignore_row_if in ("never", "neither"):
        return "TRUE"
    logical_operator = " AND " if ignore_row_if in ("any_value_is_missing", "either_value_is_missing") else " OR "
    return f"({logical_operator.join(f'{value} IS NOT NULL' for value in values)})"


def is_comparable(rows: Rows, column: str, values: list[Any]) -> bool:
    """Return whether SQL compares the values of a set with the column as pandas does.

    The values must have the kind of the column, and no integer may be too large. False for an empty set.
    """
    kind = rows.get_kind(column)
    largest_integer = MAX_EXACT_INTEGER if kind == "float" else 2**63 - 1
    if any(isinstance(value, int) and abs(value) > largest_integer for value in values):
        return False  # pandas compares it exactly or as a float, depending on the set's other values
    value_types = {"int": (int,), "float": (int, float), "text": (str,)}.get(kind)
    return bool(values) and value_types is not None and all(isinstance(value, value_types) for value in values)


def _build_match_condition(args: arguments.Pattern | arguments.ExcludedPattern, rows: Rows) -> str:
    """Build the condition that the value matches the regular expression; empty if SQL cannot check it."""
    return build_match_sql(rows, args.column, args.regex) if rows.get_kind(args.column) == "text" else ""


def _make_value_check(args: arguments.ValueArguments, rows: Rows, condition: str) -> RowCheck:
    """Make the check that the condition is true for each value that is not missing."""
    judged_sql = f"{rows.build_value_sql(args.column)} IS NOT NULL"
    return RowCheck([args.column], judged_sql, f"({judged_sql} AND NOT ({condition}))", args.mostly)


def _make_pair_check(args: arguments.ColumnPair, rows: Rows, operator: str) -> RowCheck | None:
    """Make the check that a comparison of the first column with the second one is true."""
    columns = [args.column_A, args.column_B]
    kinds = {rows.get_kind(column) for column in columns}
    if len(kinds) > 1 or not kinds <= {"int", "float", "text", "timestamp"}:
        return None
    values = [rows.build_value_sql(column) for column in columns]
    judged_sql = build_judged_sql(values, args.ignore_row_if)
    condition = f"coalesce({values[0]} {operator} {values[1]}, FALSE)"
    return RowCheck(
        columns,
        judged_sql,
        f"({judged_sql} AND NOT {condition})",
        args.mostly,
        needs_gx_sql=_build_na_sql(values) if kinds == {"int"} else "",
    )


def _build_na_sql(values: Sequence[str]) -> str:
    """Build the SQL aggregate that is true if an integer column has missing values and integers too large for a float.

    Great Expectations gets such a column with NA for the missing values, and pandas compares NA differently from NaN.
    """
    return " OR ".join(
        f"(count(*) > count({value}) AND max(abs({value}::HUGEINT)) > {MAX_EXACT_INTEGER})" for value in values
    )


def _build_range_condition(value: str, args: Any, low: str | None, high: str | None) -> str:
    """Return the SQL condition that the value is between the bounds; a bound that is None does not exist."""
    lower_condition = f"{value} {'>' if args.strict_min else '>='} {low}" if low else "TRUE"
    upper_condition = f"{value} {'<' if args.strict_max else '<='} {high}" if high else "TRUE"
    return f"{lower_condition} AND {upper_condition}"


def _build_bound_sql(kind: str, value: Any) -> str | None:
    """Return the SQL of a bound for a kind of column; None if there is no bound, empty if it does not fit the kind."""
    if value is None:
        return None
    if kind in _NUMBER_KINDS and not isinstance(value, str):
        return to_literal(value)
    if kind not in ("date", "timestamp") or not isinstance(value, str):
        return ""
    try:
        time = dt.datetime.fromisoformat(value)
    except ValueError:
        return ""
    if kind == "date":
        return f"DATE '{value}'" if len(value) == 10 else ""
    return f"TIMESTAMPTZ '{time.isoformat()}'" if time.tzinfo else ""
