"""Checks of each row, as SQL. A function returns None where the types need Great Expectations' own evaluation."""

from __future__ import annotations

import datetime as dt
from itertools import combinations
from typing import Any

from pipelines.validation.suites import arguments
from pipelines.validation.suites.checks import RowCheck
from pipelines.validation.suites.patterns import build_match_sql
from pipelines.validation.suites.rows import Rows, list_literals, to_literal

_COMPARED = ("int", "float")


def not_null(args: arguments.OfValues, rows: Rows) -> RowCheck:
    """Check that no value is missing."""
    return RowCheck([args.column], "TRUE", f"{rows.value(args.column)} IS NULL", args.mostly, of_missing=True)


def null(args: arguments.OfValues, rows: Rows) -> RowCheck:
    """Check that every value is missing."""
    return RowCheck([args.column], "TRUE", f"{rows.value(args.column)} IS NOT NULL", args.mostly, of_missing=True)


def between(args: arguments.ValuesBounded, rows: Rows) -> RowCheck | None:
    """Check that every value is in a range."""
    bounds = [_bound(rows.kind(args.column), value) for value in (args.min_value, args.max_value)]
    if "" in bounds or (None not in bounds and args.min_value > args.max_value):  # type: ignore[operator]
        return None
    return _values(args, rows, _ranged(rows.value(args.column), args, *bounds))


def in_set(args: arguments.ValuesInSet, rows: Rows) -> RowCheck | None:
    """Check that every value is in a set."""
    if not is_comparable(rows, args.column, args.value_set):
        return None
    return _values(args, rows, f"{rows.value(args.column)} IN ({list_literals(args.value_set)})")


def not_in_set(args: arguments.ValuesInSet, rows: Rows) -> RowCheck | None:
    """Check that no value is in a set."""
    if not is_comparable(rows, args.column, args.value_set):
        return None
    return _values(args, rows, f"{rows.value(args.column)} NOT IN ({list_literals(args.value_set)})")


def lengths_between(args: arguments.LengthsBounded, rows: Rows) -> RowCheck | None:
    """Check that the length of every value is in a range."""
    bounds = [None if value is None else to_literal(value) for value in (args.min_value, args.max_value)]
    if rows.kind(args.column) != "text" or bounds == [None, None]:
        return None
    return _values(args, rows, _ranged(f"length({rows.value(args.column)})", args, *bounds))


def length_equal(args: arguments.LengthEqual, rows: Rows) -> RowCheck | None:
    """Check that every value has a given length."""
    if rows.kind(args.column) != "text":
        return None
    return _values(args, rows, f"length({rows.value(args.column)}) = {args.value}")


def match(args: arguments.Pattern, rows: Rows) -> RowCheck | None:
    """Check that a regular expression is found in every value."""
    condition = _build_match_condition(args, rows)
    return _values(args, rows, condition) if condition else None


def not_match(args: arguments.Pattern, rows: Rows) -> RowCheck | None:
    """Check that a regular expression is found in no value."""
    condition = _build_match_condition(args, rows)
    return _values(args, rows, f"NOT {condition}") if condition else None


def pair_equal(args: arguments.Pair, rows: Rows) -> RowCheck | None:
    """Check that both columns have the same value. A missing value equals nothing."""
    return _pair(args, rows, "=")


def pair_greater(args: arguments.PairGreater, rows: Rows) -> RowCheck | None:
    """Check that the first column is greater than the second. A missing value is above nothing."""
    return _pair(args, rows, ">=" if args.or_equal else ">")


def differ_in_row(args: arguments.Several, rows: Rows) -> RowCheck | None:
    """Check that the values of the columns differ from each other within a row. Missing values are equal."""
    values = [rows.value(column) for column in args.column_list]
    if len({rows.kind(column) for column in args.column_list}) > 1 or "other" in map(rows.kind, args.column_list):
        return None
    same = " OR ".join(f"{a} IS NOT DISTINCT FROM {b}" for a, b in combinations(values, 2)) or "FALSE"
    judged = build_judged_sql(values, args.ignore_row_if)
    return RowCheck(args.column_list, judged, f"({judged} AND ({same}))", args.mostly, as_mapping=True)


def build_judged_sql(values: list[str], ignore_row_if: str) -> str:
    """Return SQL that is true where a row of several values is judged."""
    if ignore_row_if in ("never", "neither"):
        return "TRUE"
    joint = " AND " if ignore_row_if in ("any_value_is_missing", "either_value_is_missing") else " OR "
    return f"({joint.join(f'{value} IS NOT NULL' for value in values)})"


def is_comparable(rows: Rows, column: str, values: list[Any]) -> bool:
    """Return whether a column's values and those of a set have the same kind."""
    kind = rows.kind(column)
    wanted = {"int": (int,), "float": (int, float), "text": (str,)}.get(kind)
    return bool(values) and wanted is not None and all(isinstance(value, wanted) for value in values)


def _build_match_condition(args: arguments.Pattern, rows: Rows) -> str:
    """Build the condition that the value matches the regular expression; empty where SQL cannot check it."""
    return build_match_sql(rows, args.column, args.regex) if rows.kind(args.column) == "text" else ""


def _values(args: arguments.OfValues, rows: Rows, good: str) -> RowCheck:
    judged = f"{rows.value(args.column)} IS NOT NULL"
    return RowCheck([args.column], judged, f"({judged} AND NOT ({good}))", args.mostly)


def _pair(args: arguments.Pair, rows: Rows, operator: str) -> RowCheck | None:
    columns = [args.column_A, args.column_B]
    kinds = {rows.kind(column) for column in columns}
    if len(kinds) > 1 or not kinds <= {"int", "float", "text", "moment"}:
        return None
    values = [rows.value(column) for column in columns]
    judged = build_judged_sql(values, args.ignore_row_if)
    good = f"coalesce({values[0]} {operator} {values[1]}, FALSE)"
    return RowCheck(columns, judged, f"({judged} AND NOT {good})", args.mostly)


def _ranged(value: str, args: Any, low: str | None, high: str | None) -> str:
    above = f"{value} {'>' if args.strict_min else '>='} {low}" if low else "TRUE"
    below = f"{value} {'<' if args.strict_max else '<='} {high}" if high else "TRUE"
    return f"{above} AND {below}"


def _bound(kind: str, value: Any) -> str | None:
    """Return the SQL of a bound for a kind of column; empty where the bound does not fit the kind."""
    if value is None:
        return None
    if kind in _COMPARED and not isinstance(value, str):
        return to_literal(value)
    if kind not in ("day", "moment") or not isinstance(value, str):
        return ""
    try:
        time = dt.datetime.fromisoformat(value)
    except ValueError:
        return ""
    if kind == "day":
        return f"DATE '{value}'" if len(value) == 10 else ""
    return f"TIMESTAMPTZ '{time.isoformat()}'" if time.tzinfo else ""
