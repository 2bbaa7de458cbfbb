"""Checks of the table: its columns, its number of rows, how that is to other weeks, how fresh it is."""

from __future__ import annotations

import datetime as dt
from itertools import zip_longest
from statistics import median
from typing import Any

from pipelines.validation.suites import arguments as given
from pipelines.validation.suites.checks import Answer, Whole
from pipelines.validation.suites.column_checks import within
from pipelines.validation.suites.rows import Rows


def row_count_between(args: given.CountBounded, rows: Rows) -> Whole:
    """The number of rows is in a range."""
    return Whole([], lambda rows, _: within(args, rows.count))


def row_count_equal(args: given.Exactly, rows: Rows) -> Whole:
    """The number of rows is the one."""
    return Whole([], lambda rows, _: (rows.count == args.value, {"observed_value": rows.count}))


def column_count_between(args: given.ColumnCount, rows: Rows) -> Whole:
    """The number of columns is in a range."""
    bounds = given.CountBounded(min_value=args.min_value, max_value=args.max_value)
    return Whole([], lambda rows, _: within(bounds, len(rows.schema)))


def column_count_equal(args: given.Exactly, rows: Rows) -> Whole:
    """The number of columns is the one."""
    return Whole([], lambda rows, _: (len(rows.schema) == args.value, {"observed_value": len(rows.schema)}))


def column_exists(args: given.Existing, rows: Rows) -> Whole:
    """There is such a column, and at its place."""
    names = rows.schema.names
    if args.column_index:  # to Great Expectations, 0 is none
        there = names[args.column_index : args.column_index + 1 or None] == [args.column]
    else:
        there = args.column in names
    return Whole([], lambda *_: (there, {}))


def columns_match_set(args: given.ColumnSet, rows: Rows) -> Whole:
    """The columns have these names; where `exact_match` is false, others may be there too."""
    has, wanted = set(rows.schema.names), set(args.column_set)
    wrong = {"unexpected": sorted(has - wanted), "missing": sorted(wanted - has)}
    seen: dict[str, Any] = {"observed_value": sorted(has)}
    if any(wrong.values()):
        seen["details"] = {"mismatched": {name: found for name, found in wrong.items() if found}}
    good = not wrong["missing"] and not (args.exact_match and wrong["unexpected"])
    return Whole([], lambda *_: (good, seen))


def columns_match_list(args: given.ColumnList, rows: Rows) -> Whole:
    """The columns have these names, in this order."""
    has = rows.schema.names
    wrong = [
        {"Expected Column Position": place, "Expected": wanted, "Found": found}
        for place, (wanted, found) in enumerate(zip_longest(args.column_list, has))
        if wanted != found
    ]
    seen: dict[str, Any] = {"observed_value": has} | ({"details": {"mismatched": wrong}} if wrong else {})
    return Whole([], lambda *_: (not wrong, seen))


def volume(args: given.Volume, rows: Rows) -> Whole:
    """The number of rows is in line with the same weekday of the weeks before. True where those are too few."""
    days = [rows.day - dt.timedelta(weeks=number) for number in range(1, args.weeks + 1)]

    def finish(rows: Rows, _: Any) -> Answer:
        sizes = rows.lake.count_rows_of_days(rows.published, days)
        told = {"history": {str(day): sizes[day] for day in sorted(sizes)}}
        if len(sizes) < args.min_history:
            note = f"{rows.count} rows; {len(sizes)} of the last {args.weeks} weeks are published: too few to judge by"
            return True, {"observed_value": note, "details": told}
        typical = median(sizes.values())
        ratio = rows.count / typical
        seen = f"{rows.count} rows, {ratio:.2f} of the {typical:g} that a {rows.day:%A} has"
        details = told | {"typical": typical, "ratio": round(ratio, 4)}
        return args.min_ratio <= ratio <= args.max_ratio, {"observed_value": seen, "details": details}

    return Whole([], finish)


def fresh(args: given.Fresh, rows: Rows) -> Whole | None:
    """The newest value is not older than so many hours at the partition's end, midnight UTC."""
    if rows.kind(args.column) != "moment":
        return None
    ends = dt.datetime.combine(rows.day + dt.timedelta(1), dt.time(), dt.UTC)

    def finish(rows: Rows, told: Any) -> Answer:
        if told[0] is None:
            return False, {"observed_value": f"no value in {args.column}"}
        age = (ends.timestamp() - told[0]) / 3600
        newest = dt.datetime.fromtimestamp(told[0], dt.UTC).isoformat()
        seen = f"newest {newest}, {max(age, 0):.1f} h before the end of {rows.day}"
        return age <= args.max_age_hours, {"observed_value": seen, "details": {"age_hours": round(age, 4)}}

    return Whole([f"epoch(max({rows.value(args.column)}))"], finish)
