"""Profile a window of a table in a few DuckDB queries; memory does not grow with the window."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pyarrow as pa

from pipelines.errors import DataError
from pipelines.lake import PARTITION, Lake, connect
from pipelines.system.duckdb_session import quote_identifier, quote_text

Kind = Literal["number", "integer", "text", "moment", "other"]
SHAPES = ("[0-9]", "[A-Z]", "[a-z]", "[A-Z0-9]", "[A-Za-z]", "[A-Za-z0-9]", "[A-Za-z0-9_.-]")
"""Character classes of codes, the narrowest first."""
MAX_VALUES = 40
"""Most distinct values of a column that a draft lists."""
_VIEW = "rows"


@dataclass(frozen=True)
class Column:
    """The figures of one column in the window. NaN counts as null."""

    name: str
    kind: Kind
    nulls: int
    most_null: float
    """Largest share of nulls in a partition, 0 to 1."""
    distinct: int
    """Approximate number of distinct values."""
    least: float | None = None
    most: float | None = None
    quantiles: Sequence[float] = ()
    """Approximate quantiles at 1 %, 50 % and 99 %."""
    means: Sequence[float] = ()
    """Smallest and largest mean of a partition; empty where a partition has no value."""
    lengths: tuple[int, int] | None = None
    shape: str = ""
    """Narrowest of `SHAPES` that every value matches; empty where none does."""
    stale_h: float | None = None
    """Longest time from the newest timestamp of a partition to the partition's end, hours."""
    values: Sequence[str] = ()
    """All distinct values, where they are few and none first appeared in the later half of the window."""


@dataclass(frozen=True)
class Profile:
    """The figures of a window of a table."""

    table: str
    first: dt.date
    last: dt.date
    days: Mapping[dt.date, int]
    """Number of rows of each partition that has rows."""
    columns: Sequence[Column]
    key: Sequence[str] = ()
    """Columns that should identify a row of a partition uniquely."""
    repeated: int = 0
    """Number of rows whose key occurs more than once in their partition."""

    @property
    def rows(self) -> int:
        """Number of rows in the window."""
        return sum(self.days.values())


def profile_table(table: str, first: dt.date, last: dt.date, key: Sequence[str] = ()) -> Profile:
    """Profile the partitions `first`..`last` of a table of the lake.

    Raises:
        DataError: there is no such table, the window has no rows, or a key column is missing. A retry cannot help.
    """
    lake = Lake.open()
    schema = lake.read_schema(table)
    missing = [name for name in key if name not in schema.names]
    if missing:
        raise DataError(f"table {table} lacks the column(s) {', '.join(missing)} of its key.")
    with connect() as connection, lake.create_view(connection, _VIEW, table, first, last):
        days = _query_by_day(connection, schema)
        if not days:
            raise DataError(f"table {table} has no rows from {first} to {last}.", "Ingest and validate them first.")
        window_figures = _query_window(connection, schema)
        columns = [
            _build_column(connection, field, days, window_figures) for field in schema if field.name != PARTITION
        ]
        repeated = _count_rows_with_repeated_key(connection, key)
    counts = {day[PARTITION]: day["n"] for day in days}
    return Profile(table, first, last, counts, columns, [name for name in key if name != PARTITION], repeated)


def classify_type(kind: pa.DataType) -> Kind:
    """Return the kind of a column, which decides what a draft can expect of it."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if kind == pa.timestamp("us", tz="UTC"):
        return "moment"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "other"


def _query_by_day(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> list[dict[str, Any]]:
    """Query one row per partition: counts, minima, maxima, means, lengths (first pass)."""
    expressions = {"n": "count(*)"}
    for field in schema:
        name, value = field.name, _build_value_sql(field)
        expressions[f"{name} has"] = f"count({value})"
        if classify_type(field.type) in ("integer", "number"):
            expressions |= {
                f"{name} min": f"min({value})",
                f"{name} max": f"max({value})",
                f"{name} mean": f"avg({value})",
            }
        if classify_type(field.type) == "moment":
            expressions[f"{name} newest"] = f"epoch(max({value}))"
        if classify_type(field.type) == "text":
            expressions |= {f"{name} short": f"min(length({value}))", f"{name} long": f"max(length({value}))"}
            expressions |= {f"{name} {shape}": _build_mismatch_count_sql(value, shape) for shape in SHAPES}
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in expressions.items())
    day = quote_identifier(PARTITION)
    return _query_rows(connection, f"SELECT {day}, {listed} FROM {_VIEW} GROUP BY {day} ORDER BY {day}")  # noqa: S608


def _query_window(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> dict[str, Any]:
    """Query quantiles and numbers of distinct values (second pass)."""
    expressions = {}
    for field in schema:
        expressions[f"{field.name} distinct"] = f"approx_count_distinct({_build_value_sql(field)})"
        if classify_type(field.type) in ("integer", "number"):
            finite = f"CASE WHEN isfinite({_build_value_sql(field)}::DOUBLE) THEN {_build_value_sql(field)}::DOUBLE END"
            expressions[f"{field.name} quantiles"] = f"approx_quantile({finite}, [0.01, 0.5, 0.99])"
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in expressions.items())
    return _query_rows(connection, f"SELECT {listed} FROM {_VIEW}")[0]  # noqa: S608


def _build_column(
    connection: duckdb.DuckDBPyConnection, field: pa.Field, days: list[dict[str, Any]], window_figures: dict[str, Any]
) -> Column:
    name, kind = field.name, classify_type(field.type)
    missing = [day["n"] - day[f"{name} has"] for day in days]
    shares = [lack / day["n"] for lack, day in zip(missing, days, strict=True)]
    figures = {"nulls": sum(missing), "most_null": max(shares), "distinct": window_figures[f"{name} distinct"]}
    if kind in ("integer", "number"):
        figures |= _compute_number_figures(days, name) | {"quantiles": window_figures[f"{name} quantiles"] or ()}
    if kind == "moment":
        figures["stale_h"] = _compute_stale_h(days, name)
    if kind == "text":
        figures |= _compute_text_figures(days, name)
        if 0 < window_figures[f"{name} distinct"] <= MAX_VALUES:
            figures["values"] = _list_values(connection, name, days)
    return Column(name, kind, **figures)


def _compute_number_figures(days: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Compute range and means; empty where there is no value, or an infinite one."""
    days_with_values = [day for day in days if day[f"{name} has"]]
    least, most = (
        min((day[f"{name} min"] for day in days_with_values), default=None),
        max((day[f"{name} max"] for day in days_with_values), default=None),
    )
    if least is None or most is None or not (math.isfinite(least) and math.isfinite(most)):
        return {}
    means = [float(day[f"{name} mean"]) for day in days_with_values]
    # A partition without any value has no mean, and would fail an expectation about means.
    bounds = (min(means), max(means)) if len(days_with_values) == len(days) else ()
    return {"least": _convert_number(least), "most": _convert_number(most), "means": bounds}


def _compute_stale_h(days: list[dict[str, Any]], name: str) -> float | None:
    """Compute `Column.stale_h`; None where a partition has no timestamp."""
    hours = []
    for day in days:
        if day[f"{name} newest"] is None:
            return None
        ends = dt.datetime.combine(day[PARTITION] + dt.timedelta(1), dt.time(), dt.UTC)
        hours.append((ends.timestamp() - float(day[f"{name} newest"])) / 3600)
    return max(hours)


def _compute_text_figures(days: list[dict[str, Any]], name: str) -> dict[str, Any]:
    days_with_values = [day for day in days if day[f"{name} has"]]
    if not days_with_values:
        return {}
    shape = next((shape for shape in SHAPES if not any(day[f"{name} {shape}"] for day in days_with_values)), "")
    return {
        "lengths": (
            min(d[f"{name} short"] for d in days_with_values),
            max(d[f"{name} long"] for d in days_with_values),
        ),
        "shape": shape,
    }


def _list_values(connection: duckdb.DuckDBPyConnection, name: str, days: list[dict[str, Any]]) -> list[str]:
    """List all values of a column; empty where one first appeared in the later half, because more may follow."""
    day, column = quote_identifier(PARTITION), quote_identifier(name)
    each = f"SELECT {column} AS v, min({day}) AS day FROM {_VIEW} WHERE {column} IS NOT NULL GROUP BY 1"  # noqa: S608
    values = _query_rows(connection, each)
    half = days[len(days) // 2][PARTITION]
    is_complete = len(values) <= MAX_VALUES and all(value["day"] <= half for value in values)
    return sorted(value["v"] for value in values) if is_complete else []


def _count_rows_with_repeated_key(connection: duckdb.DuckDBPyConnection, key: Sequence[str]) -> int:
    if not key:
        return 0
    columns = ", ".join(quote_identifier(name) for name in dict.fromkeys([PARTITION, *key]))
    groups = f"SELECT count(*) AS n FROM {_VIEW} GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608
    return int(_query_rows(connection, f"SELECT coalesce(sum(n), 0) AS n FROM ({groups})")[0]["n"])  # noqa: S608


def _build_value_sql(field: pa.Field) -> str:
    """Return the SQL of a column; NaN becomes null, as in Great Expectations' pandas engine."""
    return (
        f"nullif({quote_identifier(field.name)}, 'nan')"
        if pa.types.is_floating(field.type)
        else quote_identifier(field.name)
    )


def _build_mismatch_count_sql(value: str, shape: str) -> str:
    return f"count(*) FILTER (WHERE NOT regexp_full_match({value}, {quote_text(f'{shape}+')}))"


def _convert_number(value: Any) -> float:
    return value if isinstance(value, int) else float(value)


def _query_rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
