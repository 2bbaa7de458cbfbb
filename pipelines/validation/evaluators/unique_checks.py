"""Make checks that compare rows with each other, or with the rows of another table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from pipelines.errors import DataError
from pipelines.partitions import get_date, get_last_day
from pipelines.system.duckdb_session import quote_identifier
from pipelines.validation.evaluators import arguments
from pipelines.validation.evaluators.checks import RowCheck
from pipelines.validation.evaluators.row_checks import build_judged_sql
from pipelines.validation.evaluators.rows import Rows


def make_unique_check(args: arguments.ValueArguments, rows: Rows) -> RowCheck | None:
    """Make the check that no value occurs twice. Missing values are not judged."""
    if rows.get_kind(args.column) == "other":
        return None
    value = rows.build_value_sql(args.column)
    return _make_no_duplicates_check([args.column], rows, f"{value} IS NOT NULL", args.mostly)


def make_unique_combination_check(args: arguments.SeveralColumns, rows: Rows) -> RowCheck | None:
    """Make the check that no combination of values occurs twice. Missing values are equal to each other."""
    if "other" in map(rows.get_kind, args.column_list):
        return None
    values = [rows.build_value_sql(column) for column in args.column_list]
    return _make_no_duplicates_check(
        args.column_list, rows, build_judged_sql(values, args.ignore_row_if), args.mostly, has_mapping_examples=True
    )


def make_match_check(args: arguments.MatchInTable, rows: Rows) -> RowCheck:
    """Make the check that every row has a match in another table.

    The match may be in the days of this partition, or up to `days_before` days before or `days_after` days after them.
    A row with a missing value is not judged.

    Raises:
        DataError: the other table, its column or its partitions do not exist. A retry cannot help.
    """
    first = get_date(rows.partition) - dt.timedelta(args.days_before)
    last = get_last_day(rows.partition) + dt.timedelta(args.days_after)
    table = _copy_keys(args, rows, first, last)
    if not rows.execute(f"FROM {table} LIMIT 1"):
        raise DataError(f"table {args.table} has no partition from {first} to {last}.", "Ingest it first.")
    values = [
        _truncate_to_hour(rows.build_value_sql(column), args.by_hour and rows.get_kind(column) == "timestamp")
        for column in args.columns
    ]
    match_sql = " AND ".join(f"o.c{number} = {value}" for number, value in enumerate(values))
    judged_sql = build_judged_sql(values, "any_value_is_missing")
    unexpected_sql = f"({judged_sql} AND NOT EXISTS (SELECT 1 FROM {table} AS o WHERE {match_sql}))"  # noqa: S608
    return RowCheck(
        args.columns,
        judged_sql,
        unexpected_sql,
        args.mostly,
        has_mapping_examples=True,
        count_unexpected=_make_counter(unexpected_sql),
    )


def _copy_keys(args: arguments.MatchInTable, rows: Rows, first: dt.date, last: dt.date) -> str:
    """Copy the distinct keys of the other table to a temporary table with the columns c0, c1, ...; return its name."""
    schema, columns = rows.lake.read_schema(args.table), args.other_columns or args.columns
    missing_columns = [column for column in columns if column not in schema.names]
    if missing_columns:
        raise DataError(f"table {args.table} has no column {', '.join(missing_columns)}.")
    name, view = rows.make_table_name(), rows.make_table_name()
    with rows.lake.create_view(rows.connection, view, args.table, first, last):
        keys = [
            _truncate_to_hour(
                quote_identifier(column), args.by_hour and str(schema.field(column).type).startswith("timestamp")
            )
            for column in columns
        ]
        selection = ", ".join(f"{key} AS c{number}" for number, key in enumerate(keys))
        rows.execute(f"CREATE TEMP TABLE {name} AS SELECT DISTINCT {selection} FROM {view}")  # noqa: S608
    return name


def _make_no_duplicates_check(
    columns: Sequence[str], rows: Rows, judged_sql: str, mostly: float, *, has_mapping_examples: bool = False
) -> RowCheck:
    """Make the check that no two rows have equal values in the columns.

    `count_unexpected` also creates the table of repeated values, which `unexpected_sql` needs.
    """
    name, values = rows.make_table_name(), [rows.build_value_sql(column) for column in columns]
    equality_sql = " AND ".join(f"o.c{number} IS NOT DISTINCT FROM {value}" for number, value in enumerate(values))

    def count_unexpected(rows: Rows) -> int:
        selection = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values))
        positions = ", ".join(str(number + 1) for number in range(len(values)))
        rows.execute(
            f"CREATE TEMP TABLE {name} AS SELECT {selection}, count(*) AS n FROM {rows.view} AS r "  # noqa: S608
            f"WHERE {judged_sql} GROUP BY {positions} HAVING n > 1"
        )
        return int(rows.execute(f"SELECT coalesce(sum(n), 0) FROM {name}")[0][0])  # noqa: S608

    unexpected_sql = f"({judged_sql} AND EXISTS (SELECT 1 FROM {name} AS o WHERE {equality_sql}))"  # noqa: S608
    return RowCheck(
        columns,
        judged_sql,
        unexpected_sql,
        mostly,
        has_mapping_examples=has_mapping_examples,
        count_unexpected=count_unexpected,
    )


def _make_counter(condition: str) -> Callable[[Rows], int]:
    """Return a function that counts the rows that meet the condition."""

    def count_rows(rows: Rows) -> int:
        return int(rows.query("count(*)", where=condition)[0][0])

    return count_rows


def _truncate_to_hour(value: str, by_hour: bool) -> str:
    return f"date_trunc('hour', {value})" if by_hour else value
