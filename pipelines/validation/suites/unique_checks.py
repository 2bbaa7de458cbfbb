"""Checks of rows against each other, and against the rows of another table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from pipelines.errors import DataError
from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.suites import arguments as given
from pipelines.validation.suites.checks import EachRow
from pipelines.validation.suites.row_checks import judged_of
from pipelines.validation.suites.rows import Rows


def unique(args: given.OfValues, rows: Rows) -> EachRow | None:
    """No value is there twice."""
    if rows.kind(args.column) == "other":
        return None
    value = rows.value(args.column)
    return _alone([args.column], rows, f"{value} IS NOT NULL", args.mostly)


def compound_unique(args: given.Several, rows: Rows) -> EachRow | None:
    """No combination of values is there twice. All that are missing are one value."""
    if "other" in map(rows.kind, args.column_list):
        return None
    values = [rows.value(one) for one in args.column_list]
    return _alone(args.column_list, rows, judged_of(values, args.ignore_row_if), args.mostly, as_mapping=True)


def matched(args: given.Matched, rows: Rows) -> EachRow:
    """Every row has a row in another table, among its partitions around this one. One without a value is not judged.

    Raises:
        DataError: there is no such table, column or partition.
    """
    first, last = rows.day - dt.timedelta(args.days_before), rows.day + dt.timedelta(args.days_after)
    others = args.other_columns or args.columns
    missing = [one for one in others if one not in rows.lake.read_schema(args.table).names]
    if missing:
        raise DataError(f"table {args.table} has no column {', '.join(missing)}.")
    ours = [_moment(rows.value(one), args.by_hour and rows.kind(one) == "moment") for one in args.columns]
    name, view = rows.new_name(), rows.new_name()
    with rows.lake.create_view(rows.connection, view, args.table, first, last):
        kinds = dict(zip(rows.lake.read_schema(args.table).names, rows.lake.read_schema(args.table).types, strict=True))
        theirs = [
            f"{_moment(quote_identifier(one), args.by_hour and str(kinds[one]).startswith('timestamp'))} AS c{number}"
            for number, one in enumerate(others)
        ]
        rows.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT DISTINCT {', '.join(theirs)} FROM {view}")  # noqa: S608
    if not rows.connection.execute(f"FROM {name} LIMIT 1").fetchall():
        raise DataError(f"table {args.table} has no partition from {first} to {last}.")
    same = " AND ".join(f"o.c{number} = {one}" for number, one in enumerate(ours))
    judged = judged_of(ours, "any_value_is_missing")
    wrong = f"({judged} AND NOT EXISTS (SELECT 1 FROM {name} AS o WHERE {same}))"  # noqa: S608
    return EachRow(args.columns, judged, wrong, args.mostly, as_mapping=True, counting=_counted(wrong))


def _alone(columns: Sequence[str], rows: Rows, judged: str, mostly: float, *, as_mapping: bool = False) -> EachRow:
    """A check whose wrong rows are those that have company."""
    name, values = rows.new_name(), [rows.value(one) for one in columns]
    same = " AND ".join(f"o.c{number} IS NOT DISTINCT FROM {one}" for number, one in enumerate(values))

    def counting(rows: Rows) -> int:
        picked = ", ".join(f"{one} AS c{number}" for number, one in enumerate(values))
        places = ", ".join(str(number + 1) for number in range(len(values)))
        rows.connection.execute(
            f"CREATE TEMP TABLE {name} AS SELECT {picked}, count(*) AS n FROM {rows.source} AS r "  # noqa: S608
            f"WHERE {judged} GROUP BY {places} HAVING n > 1"
        )
        found = rows.connection.execute(f"SELECT coalesce(sum(n), 0) FROM {name}").fetchall()  # noqa: S608
        return int(found[0][0])

    wrong = f"({judged} AND EXISTS (SELECT 1 FROM {name} AS o WHERE {same}))"  # noqa: S608
    return EachRow(columns, judged, wrong, mostly, as_mapping=as_mapping, counting=counting)


def _counted(wrong: str) -> Callable[[Rows], int]:
    def counting(rows: Rows) -> int:
        return int(rows.ask("count(*)", where=wrong)[0][0])

    return counting


def _moment(value: str, by_hour: bool) -> str:
    return f"date_trunc('hour', {value})" if by_hour else value
