"""Checks of what a column's values are together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from pipelines.validation.suites import arguments as given
from pipelines.validation.suites.checks import Answer, Whole, plain
from pipelines.validation.suites.row_checks import comparable
from pipelines.validation.suites.rows import Rows, listed

MAX_DISTINCT = 20
"""Values that a result lists, as Great Expectations' results do."""


def aggregate(function: str) -> Callable[[given.ColumnBounded, Rows], Whole | None]:
    """The check that an aggregate of DuckDB is in a range."""

    def check(args: given.ColumnBounded, rows: Rows) -> Whole | None:
        if rows.kind(args.column) not in ("int", "float"):
            return None
        # To pandas the sum of nothing is 0, and of it there is no least or mean.
        nothing = 0 if function == "sum" else None
        asked = f"{function}({rows.value(args.column)})"
        return Whole([asked], lambda _, told: within(args, nothing if told[0] is None else told[0]))

    return check


def spread(args: given.ColumnBounded, rows: Rows) -> Whole | None:
    """The sample standard deviation is in a range."""
    return _asked_alone(args, rows, "stddev_samp")


def median(args: given.ColumnBounded, rows: Rows) -> Whole | None:
    """The median is in a range."""
    return _asked_alone(args, rows, "median")


def distinct_count(args: given.ColumnBounded, rows: Rows) -> Whole | None:
    """The number of distinct values is in a range."""
    if rows.kind(args.column) == "other":
        return None
    return Whole([], lambda rows, _: within(args, _distinct(rows, args.column)))


def distinct_share(args: given.ColumnBounded, rows: Rows) -> Whole | None:
    """The number of distinct values, by that of all values, is in a range."""
    if rows.kind(args.column) == "other":
        return None
    return Whole(
        [f"count({rows.value(args.column)})"],
        lambda rows, told: within(args, _distinct(rows, args.column) / told[0] if told[0] else 0),
    )


def distinct_in_set(args: given.DistinctSet, rows: Rows) -> Whole | None:
    """Every value is in a set."""
    return _sets(args, rows, extra=True)


def distinct_contain_set(args: given.DistinctSet, rows: Rows) -> Whole | None:
    """Every value of a set is there."""
    return _sets(args, rows, missing=True)


def distinct_equal_set(args: given.DistinctSet, rows: Rows) -> Whole | None:
    """The values are those of a set."""
    return _sets(args, rows, extra=True, missing=True)


def within(args: given.Bounded, value: Any) -> Answer:
    """Whether a number is in a range; one that is none is not."""
    seen = {"observed_value": plain(value)}
    if value is None or math.isnan(value):
        return False, {"observed_value": None}
    above = args.min_value is None or (value > args.min_value if args.strict_min else value >= args.min_value)
    below = args.max_value is None or (value < args.max_value if args.strict_max else value <= args.max_value)
    return bool(above and below), seen


def _asked_alone(args: given.ColumnBounded, rows: Rows, function: str) -> Whole | None:
    """Of an aggregate that keeps all values, or refuses infinite ones: it must not take the others along."""
    if rows.kind(args.column) not in ("int", "float"):
        return None

    def finish(rows: Rows, _: Sequence[Any]) -> Answer:
        try:
            return within(args, rows.ask(f"{function}({rows.value(args.column)})")[0][0])
        except duckdb.OutOfRangeException:  # an infinite value: to pandas the deviation is no number
            return within(args, None)

    return Whole([], finish)


def _distinct(rows: Rows, column: str) -> int:
    return int(rows.ask(f"count(DISTINCT {rows.value(column)})")[0][0])


def _sets(args: given.DistinctSet, rows: Rows, *, extra: bool = False, missing: bool = False) -> Whole | None:
    if not comparable(rows, args.column, args.value_set):
        return None
    wanted, value = listed(args.value_set), rows.value(args.column)

    def finish(rows: Rows, _: Sequence[Any]) -> Answer:
        result: dict[str, Any] = {"observed_value": None}
        if extra:
            found = _listing(rows, value, f"{value} NOT IN ({wanted})")
            result |= {"unexpected_count": found[0], "partial_unexpected_list": found[1]}
        if missing:
            have = {row[0] for row in rows.ask(f"DISTINCT {value}", where=f"{value} IN ({wanted})")}
            lacking = sorted(set(args.value_set) - have, key=str)
            result |= {"missing_count": len(lacking), "partial_missing_list": lacking[:MAX_DISTINCT]}
        return not (result.get("unexpected_count") or result.get("missing_count")), result

    return Whole([], finish)


def _listing(rows: Rows, value: str, where: str) -> tuple[int, list[Any]]:
    """How many distinct values there are, and the least of them."""
    number = int(rows.ask(f"count(DISTINCT {value})", where=where)[0][0])
    least = rows.ask(f"DISTINCT {value} AS v", where=where, tail=f"ORDER BY v LIMIT {MAX_DISTINCT}") if number else []
    return number, [plain(row[0]) for row in least]
