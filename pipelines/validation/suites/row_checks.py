"""Checks of each row, as SQL. None of them where Great Expectations has to judge: the types do not fit ours."""

from __future__ import annotations

import datetime as dt
from itertools import combinations
from typing import Any

from pipelines.validation.suites import arguments as given
from pipelines.validation.suites.checks import EachRow
from pipelines.validation.suites.patterns import matches
from pipelines.validation.suites.rows import Rows, listed, literal

_COMPARED = ("int", "float")


def not_null(args: given.OfValues, rows: Rows) -> EachRow:
    """No value is missing."""
    return EachRow([args.column], "TRUE", f"{rows.value(args.column)} IS NULL", args.mostly, of_missing=True)


def null(args: given.OfValues, rows: Rows) -> EachRow:
    """Every value is missing."""
    return EachRow([args.column], "TRUE", f"{rows.value(args.column)} IS NOT NULL", args.mostly, of_missing=True)


def between(args: given.ValuesBounded, rows: Rows) -> EachRow | None:
    """Every value is in a range."""
    bounds = [_bound(rows.kind(args.column), one) for one in (args.min_value, args.max_value)]
    if "" in bounds or (None not in bounds and args.min_value > args.max_value):  # type: ignore[operator]
        return None
    return _values(args, rows, _ranged(rows.value(args.column), args, *bounds))


def in_set(args: given.ValuesInSet, rows: Rows) -> EachRow | None:
    """Every value is in a set."""
    if not comparable(rows, args.column, args.value_set):
        return None
    return _values(args, rows, f"{rows.value(args.column)} IN ({listed(args.value_set)})")


def not_in_set(args: given.ValuesInSet, rows: Rows) -> EachRow | None:
    """No value is in a set."""
    if not comparable(rows, args.column, args.value_set):
        return None
    return _values(args, rows, f"{rows.value(args.column)} NOT IN ({listed(args.value_set)})")


def lengths_between(args: given.LengthsBounded, rows: Rows) -> EachRow | None:
    """The length of every value is in a range."""
    bounds = [None if one is None else literal(one) for one in (args.min_value, args.max_value)]
    if rows.kind(args.column) != "text" or bounds == [None, None]:
        return None
    return _values(args, rows, _ranged(f"length({rows.value(args.column)})", args, *bounds))


def length_equal(args: given.LengthEqual, rows: Rows) -> EachRow | None:
    """Every value has a length."""
    if rows.kind(args.column) != "text":
        return None
    return _values(args, rows, f"length({rows.value(args.column)}) = {args.value}")


def match(args: given.Pattern, rows: Rows) -> EachRow | None:
    """A regular expression is found in every value."""
    found = rows.kind(args.column) == "text" and matches(rows, args.column, args.regex)
    return _values(args, rows, found) if found else None


def not_match(args: given.Pattern, rows: Rows) -> EachRow | None:
    """A regular expression is found in no value."""
    found = rows.kind(args.column) == "text" and matches(rows, args.column, args.regex)
    return _values(args, rows, f"NOT {found}") if found else None


def pair_equal(args: given.Pair, rows: Rows) -> EachRow | None:
    """Both columns have the same value. One that is missing equals nothing."""
    return _pair(args, rows, "=")


def pair_greater(args: given.PairGreater, rows: Rows) -> EachRow | None:
    """The first column is above the second. One that is missing is above nothing."""
    return _pair(args, rows, ">=" if args.or_equal else ">")


def differ_in_row(args: given.Several, rows: Rows) -> EachRow | None:
    """The columns have as many values as they are. All that are missing are one value."""
    values = [rows.value(one) for one in args.column_list]
    if len({rows.kind(one) for one in args.column_list}) > 1 or "other" in map(rows.kind, args.column_list):
        return None
    same = " OR ".join(f"{a} IS NOT DISTINCT FROM {b}" for a, b in combinations(values, 2)) or "FALSE"
    judged = judged_of(values, args.ignore_row_if)
    return EachRow(args.column_list, judged, f"({judged} AND ({same}))", args.mostly, as_mapping=True)


def judged_of(values: list[str], ignore_row_if: str) -> str:
    """SQL, true where a row of several values is judged."""
    if ignore_row_if in ("never", "neither"):
        return "TRUE"
    joint = " AND " if ignore_row_if in ("any_value_is_missing", "either_value_is_missing") else " OR "
    return f"({joint.join(f'{one} IS NOT NULL' for one in values)})"


def comparable(rows: Rows, column: str, values: list[Any]) -> bool:
    """Whether a column's values and those of a set are of one kind."""
    kind = rows.kind(column)
    wanted = {"int": (int,), "float": (int, float), "text": (str,)}.get(kind)
    return bool(values) and wanted is not None and all(isinstance(one, wanted) for one in values)


def _values(args: given.OfValues, rows: Rows, good: str) -> EachRow:
    judged = f"{rows.value(args.column)} IS NOT NULL"
    return EachRow([args.column], judged, f"({judged} AND NOT ({good}))", args.mostly)


def _pair(args: given.Pair, rows: Rows, operator: str) -> EachRow | None:
    columns = [args.column_A, args.column_B]
    kinds = {rows.kind(one) for one in columns}
    if len(kinds) > 1 or not kinds <= {"int", "float", "text", "moment"}:
        return None
    values = [rows.value(one) for one in columns]
    judged = judged_of(values, args.ignore_row_if)
    good = f"coalesce({values[0]} {operator} {values[1]}, FALSE)"
    return EachRow(columns, judged, f"({judged} AND NOT {good})", args.mostly)


def _ranged(value: str, args: Any, low: str | None, high: str | None) -> str:
    above = f"{value} {'>' if args.strict_min else '>='} {low}" if low else "TRUE"
    below = f"{value} {'<' if args.strict_max else '<='} {high}" if high else "TRUE"
    return f"{above} AND {below}"


def _bound(kind: str, value: Any) -> str | None:
    """SQL of a bound of a column of some kind; empty where it is none of that kind."""
    if value is None:
        return None
    if kind in _COMPARED and not isinstance(value, str):
        return literal(value)
    if kind not in ("day", "moment") or not isinstance(value, str):
        return ""
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        return ""
    if kind == "day":
        return f"DATE '{value}'" if len(value) == 10 else ""
    return f"TIMESTAMPTZ '{moment.isoformat()}'" if moment.tzinfo else ""
