"""Summarize a window of a table by a few DuckDB queries. Memory use does not grow with the window."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import DataError
from pipelines.lake import DATE_COLUMN, Lake, connect
from pipelines.lake.partitions import make_partition
from pipelines.partitions import HOUR_COLUMN, Partition, get_end
from pipelines.system.duckdb_session import create_view, quote_identifier, quote_text
from pipelines.window import Unit

Kind = Literal["number", "integer", "text", "timestamp", "other"]
CHARACTER_CLASSES = ("[0-9]", "[A-Z]", "[a-z]", "[A-Z0-9]", "[A-Za-z]", "[A-Za-z0-9]", "[A-Za-z0-9_.-]")
"""Character classes, as regular expressions, the narrowest first."""
MAX_VALUES = 40
"""Maximum number of distinct values that a summary lists."""
_VIEW = "rows"
_PARTITION_COLUMNS = {"hour": [DATE_COLUMN, HOUR_COLUMN], "day": [DATE_COLUMN], "month": [DATE_COLUMN]}
_PARTITION_KEY = "leeway partition"
"""Name under which each row of `_query_by_partition` has its partition."""


@dataclass(frozen=True)
class ColumnSummary:
    """Numbers that describe one column in the window. NaN is taken for null."""

    name: str
    kind: Kind
    null_count: int
    max_null_share: float
    """Largest share of nulls in a partition, 0 to 1."""
    distinct_count: int
    """Approximate number of distinct values."""
    minimum: float | None = None
    """Smallest value; None if the column has no numbers, or an infinite one."""
    maximum: float | None = None
    """Largest value; None if the column has no numbers, or an infinite one."""
    quantiles: Sequence[float] = ()
    """Approximate quantiles at 1 %, 50 % and 99 %."""
    mean_range: Sequence[float] = ()
    """Smallest and largest mean of a partition; empty if a partition has no value."""
    length_range: tuple[int, int] | None = None
    """Shortest and longest length of a text, characters."""
    character_class: str = ""
    """Narrowest of `CHARACTER_CLASSES` that all characters of all values match; empty if there is none."""
    max_age_h: float | None = None
    """Longest time from a partition's newest timestamp to its end, hours; negative if each partition ends earlier."""
    values: Sequence[str] = ()
    """All distinct values of a text column; empty if there are many, or one is new in the later half of the window."""


@dataclass(frozen=True)
class TableSummary:
    """Numbers that describe a window of a table."""

    table: str
    first: dt.date
    last: dt.date
    """Last day of the window, included."""
    rows_by_partition: Mapping[Partition, int]
    """Number of rows of each partition that has rows."""
    columns: Sequence[ColumnSummary]
    key: Sequence[str] = ()
    """Columns that should identify a row of a partition uniquely."""
    repeated_key_rows: int = 0
    """Number of rows whose key occurs more than once in their partition."""

    @property
    def rows(self) -> int:
        """Number of rows in the window."""
        return sum(self.rows_by_partition.values())


def summarize_table(
    table: str, first: dt.date, last: dt.date, key: Sequence[str] = (), unit: Unit = "day"
) -> TableSummary:
    """Summarize the partitions of a lake table whose `date` is in `first`..`last`.

    Raises:
        DataError: there is no such table, the window has no rows, or a key column is missing. A retry cannot help.
    """
    lake = Lake.open()
    schema = lake.read_schema(table)
    missing_columns = [name for name in key if name not in schema.names]
    if missing_columns:
        raise DataError(f"table {table} lacks the column(s) {', '.join(missing_columns)} of its key.")
    with connect() as connection, lake.create_view(connection, _VIEW, table, first, last):
        summary = _summarize_view(connection, schema, table, key, unit)
    if not summary:
        raise DataError(f"table {table} has no rows from {first} to {last}.", "Ingest and validate them first.")
    return replace(summary, first=first, last=last)


def summarize_file(path: Path, name: str, key: Sequence[str] = ()) -> TableSummary:
    """Summarize the days of a Parquet file that has a column `date`. The summary has the table name `name`.

    Raises:
        DataError: the file has no rows. A retry cannot help.
    """
    schema = pq.read_schema(path)
    with connect() as connection, create_view(connection, _VIEW, [str(path)], schema):
        summary = _summarize_view(connection, schema, name, key, "day")
    if not summary:
        raise DataError(f"{path} has no rows.")
    days = [day for day in summary.rows_by_partition if isinstance(day, dt.date)]
    return replace(summary, first=min(days), last=max(days))


def _summarize_view(
    connection: duckdb.DuckDBPyConnection, schema: pa.Schema, table: str, key: Sequence[str], unit: Unit
) -> TableSummary | None:
    """Summarize all partitions of the view; None if the view has no rows. The caller must set `first` and `last`."""
    partitions = _query_by_partition(connection, schema, unit)
    if not partitions:
        return None
    window_numbers = _query_window(connection, schema)
    columns = [
        _build_column(connection, field, partitions, window_numbers) for field in schema if field.name != DATE_COLUMN
    ]
    return TableSummary(
        table=table,
        first=dt.date.min,
        last=dt.date.max,
        rows_by_partition={partition[_PARTITION_KEY]: partition["n"] for partition in partitions},
        columns=columns,
        key=[name for name in key if name != DATE_COLUMN],
        repeated_key_rows=_count_rows_with_repeated_key(connection, key, unit),
    )


def classify_type(data_type: pa.DataType) -> Kind:
    """Return the kind of a column of this type. What a drafted suite can expect of a column depends on its kind."""
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        return "number"
    if data_type == pa.timestamp("us", tz="UTC"):
        return "timestamp"
    return "text" if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) else "other"


def _query_by_partition(connection: duckdb.DuckDBPyConnection, schema: pa.Schema, unit: Unit) -> list[dict[str, Any]]:
    """Query one row for each partition: counts, minima, maxima, means and lengths (first pass)."""
    expressions = {"n": "count(*)"}
    for field in schema:
        name, value = field.name, _build_value_sql(field)
        expressions[f"{name} count"] = f"count({value})"
        if classify_type(field.type) in ("integer", "number"):
            expressions |= {
                f"{name} min": f"min({value})",
                f"{name} max": f"max({value})",
                f"{name} mean": f"avg({value})",
            }
        if classify_type(field.type) == "timestamp":
            expressions[f"{name} newest"] = f"epoch(max({value}))"
        if classify_type(field.type) == "text":
            expressions |= {f"{name} shortest": f"min(length({value}))", f"{name} longest": f"max(length({value}))"}
            expressions |= {
                f"{name} {character_class}": _build_mismatch_count_sql(value, character_class)
                for character_class in CHARACTER_CLASSES
            }
    selection = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in expressions.items())
    columns = ", ".join(map(quote_identifier, _PARTITION_COLUMNS[unit]))
    query = f"SELECT {columns}, {selection} FROM {_VIEW} GROUP BY {columns} ORDER BY {columns}"  # noqa: S608
    return [{**row, _PARTITION_KEY: make_partition(row, unit)} for row in _query_rows(connection, query)]


def _query_window(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> dict[str, Any]:
    """Query the quantiles and the numbers of distinct values of the whole window (second pass)."""
    expressions = {}
    for field in schema:
        expressions[f"{field.name} distinct"] = f"approx_count_distinct({_build_value_sql(field)})"
        if classify_type(field.type) in ("integer", "number"):
            finite_sql = (
                f"CASE WHEN isfinite({_build_value_sql(field)}::DOUBLE) THEN {_build_value_sql(field)}::DOUBLE END"
            )
            expressions[f"{field.name} quantiles"] = f"approx_quantile({finite_sql}, [0.01, 0.5, 0.99])"
    selection = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in expressions.items())
    return _query_rows(connection, f"SELECT {selection} FROM {_VIEW}")[0]  # noqa: S608


def _build_column(
    connection: duckdb.DuckDBPyConnection,
    field: pa.Field,
    partitions: list[dict[str, Any]],
    window_numbers: dict[str, Any],
) -> ColumnSummary:
    name, kind = field.name, classify_type(field.type)
    null_counts = [partition["n"] - partition[f"{name} count"] for partition in partitions]
    shares = [count / partition["n"] for count, partition in zip(null_counts, partitions, strict=True)]
    distinct_count = window_numbers[f"{name} distinct"]
    numbers = {"null_count": sum(null_counts), "max_null_share": max(shares), "distinct_count": distinct_count}
    if kind in ("integer", "number"):
        numbers |= _summarize_numbers(partitions, name) | {"quantiles": window_numbers[f"{name} quantiles"] or ()}
    if kind == "timestamp":
        numbers["max_age_h"] = _compute_max_age_h(partitions, name)
    if kind == "text":
        numbers |= _summarize_texts(partitions, name)
        if 0 < distinct_count <= MAX_VALUES:
            numbers["values"] = _list_values(connection, name, partitions)
    return ColumnSummary(name, kind, **numbers)


def _summarize_numbers(partitions: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the fields `minimum`, `maximum` and `mean_range`; no fields if no value exists or one is infinite."""
    partitions_with_values = [partition for partition in partitions if partition[f"{name} count"]]
    minimum = min((partition[f"{name} min"] for partition in partitions_with_values), default=None)
    maximum = max((partition[f"{name} max"] for partition in partitions_with_values), default=None)
    if minimum is None or maximum is None or not (math.isfinite(minimum) and math.isfinite(maximum)):
        return {}
    means = [float(partition[f"{name} mean"]) for partition in partitions_with_values]
    # A partition without any value has no mean, and would fail an expectation about means.
    mean_range = (min(means), max(means)) if len(partitions_with_values) == len(partitions) else ()
    return {"minimum": _convert_number(minimum), "maximum": _convert_number(maximum), "mean_range": mean_range}


def _compute_max_age_h(partitions: list[dict[str, Any]], name: str) -> float | None:
    """Compute `ColumnSummary.max_age_h`; None if a partition has no timestamp."""
    hours = []
    for partition in partitions:
        if partition[f"{name} newest"] is None:
            return None
        hours.append((get_end(partition[_PARTITION_KEY]).timestamp() - float(partition[f"{name} newest"])) / 3600)
    return max(hours)


def _summarize_texts(partitions: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the fields `length_range` and `character_class`; no fields if no value exists."""
    partitions_with_values = [partition for partition in partitions if partition[f"{name} count"]]
    if not partitions_with_values:
        return {}
    character_class = next(
        (
            character_class
            for character_class in CHARACTER_CLASSES
            if not any(partition[f"{name} {character_class}"] for partition in partitions_with_values)
        ),
        "",
    )
    return {
        "length_range": (
            min(partition[f"{name} shortest"] for partition in partitions_with_values),
            max(partition[f"{name} longest"] for partition in partitions_with_values),
        ),
        "character_class": character_class,
    }


def _list_values(connection: duckdb.DuckDBPyConnection, name: str, partitions: list[dict[str, Any]]) -> list[str]:
    """List all values of a column; none if a value is new in the later half of the window, because more may follow."""
    day, column = quote_identifier(DATE_COLUMN), quote_identifier(name)
    query = f"SELECT {column} AS v, min({day}) AS day FROM {_VIEW} WHERE {column} IS NOT NULL GROUP BY 1"  # noqa: S608
    values = _query_rows(connection, query)
    middle_day = partitions[len(partitions) // 2][DATE_COLUMN]
    is_complete = len(values) <= MAX_VALUES and all(value["day"] <= middle_day for value in values)
    return sorted(value["v"] for value in values) if is_complete else []


def _count_rows_with_repeated_key(connection: duckdb.DuckDBPyConnection, key: Sequence[str], unit: Unit) -> int:
    if not key:
        return 0
    columns = ", ".join(map(quote_identifier, dict.fromkeys([*_PARTITION_COLUMNS[unit], *key])))
    groups = f"SELECT count(*) AS n FROM {_VIEW} GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608
    return int(_query_rows(connection, f"SELECT coalesce(sum(n), 0) AS n FROM ({groups})")[0]["n"])  # noqa: S608


def _build_value_sql(field: pa.Field) -> str:
    """Return the SQL of a column; NaN becomes null, as in Great Expectations' pandas engine."""
    return (
        f"nullif({quote_identifier(field.name)}, 'nan')"
        if pa.types.is_floating(field.type)
        else quote_identifier(field.name)
    )


def _build_mismatch_count_sql(value: str, character_class: str) -> str:
    return f"count(*) FILTER (WHERE NOT regexp_full_match({value}, {quote_text(f'{character_class}+')}))"


def _convert_number(value: Any) -> float:
    """Return an integer unchanged, and a decimal number as a float."""
    return value if isinstance(value, int) else float(value)


def _query_rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
