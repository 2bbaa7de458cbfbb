"""Checks of the table: columns, number of rows, number of rows compared with earlier weeks, freshness."""

from __future__ import annotations

import datetime as dt
from itertools import zip_longest
from statistics import median
from typing import Any

from pipelines.validation.suites import arguments
from pipelines.validation.suites.checks import Answer, TableCheck
from pipelines.validation.suites.column_checks import check_bounds
from pipelines.validation.suites.rows import Rows


def row_count_between(args: arguments.CountBounded, rows: Rows) -> TableCheck:
    """Check that the number of rows is in a range."""
    return TableCheck([], lambda rows, _: check_bounds(args, rows.count))


def row_count_equal(args: arguments.Exactly, rows: Rows) -> TableCheck:
    """Check that the number of rows equals the given one."""
    return TableCheck([], lambda rows, _: (rows.count == args.value, {"observed_value": rows.count}))


def column_count_between(args: arguments.ColumnCount, rows: Rows) -> TableCheck:
    """Check that the number of columns is in a range."""
    bounds = arguments.CountBounded(min_value=args.min_value, max_value=args.max_value)
    return TableCheck([], lambda rows, _: check_bounds(bounds, len(rows.schema)))


def column_count_equal(args: arguments.Exactly, rows: Rows) -> TableCheck:
    """Check that the number of columns equals the given one."""
    return TableCheck([], lambda rows, _: (len(rows.schema) == args.value, {"observed_value": len(rows.schema)}))


def column_exists(args: arguments.Existing, rows: Rows) -> TableCheck:
    """Check that a column exists, at its place where one is given."""
    names = rows.schema.names
    if args.column_index:  # Great Expectations takes 0 for no index
        there = names[args.column_index : args.column_index + 1 or None] == [args.column]
    else:
        there = args.column in names
    return TableCheck([], lambda *_: (there, {}))


def columns_match_set(args: arguments.ColumnSet, rows: Rows) -> TableCheck:
    """Check that the columns have these names; other columns are allowed where `exact_match` is false."""
    has, wanted = set(rows.schema.names), set(args.column_set)
    wrong = {"unexpected": sorted(has - wanted), "missing": sorted(wanted - has)}
    seen: dict[str, Any] = {"observed_value": sorted(has)}
    if any(wrong.values()):
        seen["details"] = {"mismatched": {name: found for name, found in wrong.items() if found}}
    good = not wrong["missing"] and not (args.exact_match and wrong["unexpected"])
    return TableCheck([], lambda *_: (good, seen))


def columns_match_list(args: arguments.ColumnList, rows: Rows) -> TableCheck:
    """Check that the columns have these names, in this order."""
    has = rows.schema.names
    wrong = [
        {"Expected Column Position": place, "Expected": wanted, "Found": found}
        for place, (wanted, found) in enumerate(zip_longest(args.column_list, has))
        if wanted != found
    ]
    seen: dict[str, Any] = {"observed_value": has} | ({"details": {"mismatched": wrong}} if wrong else {})
    return TableCheck([], lambda *_: (not wrong, seen))


def volume(args: arguments.Volume, rows: Rows) -> TableCheck:
    """Check that the number of rows is in line with earlier weeks. Holds where too few weeks are published."""
    days = [rows.day - dt.timedelta(weeks=number) for number in range(1, args.weeks + 1)]

    def finish(rows: Rows, _: Any) -> Answer:
        sizes = rows.lake.count_rows_of_days(rows.published, days)
        history = {"history": {str(day): sizes[day] for day in sorted(sizes)}}
        if len(sizes) < args.min_history:
            note = f"{rows.count} rows; {len(sizes)} of the last {args.weeks} weeks are published: too few to judge by"
            return True, {"observed_value": note, "details": history}
        typical = median(sizes.values())
        ratio = rows.count / typical
        observed = f"{rows.count} rows, {ratio:.2f} of the {typical:g} that a {rows.day:%A} has"
        details = history | {"typical": typical, "ratio": round(ratio, 4)}
        return args.min_ratio <= ratio <= args.max_ratio, {"observed_value": observed, "details": details}

    return TableCheck([], finish)


def fresh(args: arguments.Fresh, rows: Rows) -> TableCheck | None:
    """Check that the newest value is at most `max_age_hours` old at the partition's end, midnight UTC."""
    if rows.kind(args.column) != "moment":
        return None
    ends = dt.datetime.combine(rows.day + dt.timedelta(1), dt.time(), dt.UTC)

    def finish(rows: Rows, values: Any) -> Answer:
        if values[0] is None:
            return False, {"observed_value": f"no value in {args.column}"}
        age = (ends.timestamp() - values[0]) / 3600
        newest = dt.datetime.fromtimestamp(values[0], dt.UTC).isoformat()
        seen = f"newest {newest}, {max(age, 0):.1f} h before the end of {rows.day}"
        return age <= args.max_age_hours, {"observed_value": seen, "details": {"age_hours": round(age, 4)}}

    return TableCheck([f"epoch(max({rows.value(args.column)}))"], finish)
