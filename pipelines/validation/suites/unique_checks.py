"""Checks of rows against each other, and against the rows of another table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from pipelines.errors import DataError
from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.suites import arguments
from pipelines.validation.suites.checks import RowCheck
from pipelines.validation.suites.row_checks import build_judged_sql
from pipelines.validation.suites.rows import Rows


def unique(args: arguments.OfValues, rows: Rows) -> RowCheck | None:
    """Check that no value occurs twice."""
    if rows.kind(args.column) == "other":
        return None
    value = rows.value(args.column)
    return _check_unique([args.column], rows, f"{value} IS NOT NULL", args.mostly)


def compound_unique(args: arguments.Several, rows: Rows) -> RowCheck | None:
    """Check that no combination of values occurs twice. Missing values are equal."""
    if "other" in map(rows.kind, args.column_list):
        return None
    values = [rows.value(column) for column in args.column_list]
    return _check_unique(
        args.column_list, rows, build_judged_sql(values, args.ignore_row_if), args.mostly, as_mapping=True
    )


def matched(args: arguments.Matched, rows: Rows) -> RowCheck:
    """Check that every row has a match in another table, in the partitions around this one.

    A row with a missing value is not judged.

    Raises:
        DataError: the other table, its column or its partitions do not exist. A retry cannot help.
    """
    first, last = rows.day - dt.timedelta(args.days_before), rows.day + dt.timedelta(args.days_after)
    table = _copy_keys(args, rows, first, last)
    if not rows.connection.execute(f"FROM {table} LIMIT 1").fetchall():
        raise DataError(f"table {args.table} has no partition from {first} to {last}.", "Ingest it first.")
    values = [
        _truncate_to_hour(rows.value(column), args.by_hour and rows.kind(column) == "moment") for column in args.columns
    ]
    same = " AND ".join(f"o.c{number} = {value}" for number, value in enumerate(values))
    judged = build_judged_sql(values, "any_value_is_missing")
    wrong = f"({judged} AND NOT EXISTS (SELECT 1 FROM {table} AS o WHERE {same}))"  # noqa: S608
    return RowCheck(args.columns, judged, wrong, args.mostly, as_mapping=True, counting=_make_counter(wrong))


def _copy_keys(args: arguments.Matched, rows: Rows, first: dt.date, last: dt.date) -> str:
    """Copy the distinct keys of the other table to a temporary table with the columns c0, c1, ...; return its name."""
    schema, columns = rows.lake.read_schema(args.table), args.other_columns or args.columns
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise DataError(f"table {args.table} has no column {', '.join(missing)}.")
    name, view = rows.make_table_name(), rows.make_table_name()
    with rows.lake.create_view(rows.connection, view, args.table, first, last):
        keys = [
            _truncate_to_hour(
                quote_identifier(column), args.by_hour and str(schema.field(column).type).startswith("timestamp")
            )
            for column in columns
        ]
        listed = ", ".join(f"{key} AS c{number}" for number, key in enumerate(keys))
        rows.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT DISTINCT {listed} FROM {view}")  # noqa: S608
    return name


def _check_unique(
    columns: Sequence[str], rows: Rows, judged: str, mostly: float, *, as_mapping: bool = False
) -> RowCheck:
    """Make a check whose wrong rows are those with equal values in another row."""
    name, values = rows.make_table_name(), [rows.value(column) for column in columns]
    same = " AND ".join(f"o.c{number} IS NOT DISTINCT FROM {value}" for number, value in enumerate(values))

    def counting(rows: Rows) -> int:
        picked = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))
        places = ", ".join(str(number + 1) for number in range(len(values)))
        rows.connection.execute(
            f"CREATE TEMP TABLE {name} AS SELECT {picked}, count(*) AS n FROM {rows.source} AS r "  # noqa: S608
            f"WHERE {judged} GROUP BY {places} HAVING n > 1"
        )
        total = rows.connection.execute(f"SELECT coalesce(sum(n), 0) FROM {name}").fetchall()  # noqa: S608
        return int(total[0][0])

    wrong = f"({judged} AND EXISTS (SELECT 1 FROM {name} AS o WHERE {same}))"  # noqa: S608
    return RowCheck(columns, judged, wrong, mostly, as_mapping=as_mapping, counting=counting)


def _make_counter(wrong: str) -> Callable[[Rows], int]:
    def counting(rows: Rows) -> int:
        return int(rows.query("count(*)", where=wrong)[0][0])

    return counting


def _truncate_to_hour(value: str, by_hour: bool) -> str:
    return f"date_trunc('hour', {value})" if by_hour else value
