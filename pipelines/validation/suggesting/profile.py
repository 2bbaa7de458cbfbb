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

Kind = Literal["number", "whole", "text", "moment", "other"]
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
        days = _by_day(connection, schema)
        if not days:
            raise DataError(f"table {table} has no rows from {first} to {last}.", "Ingest and validate them first.")
        whole = _over_all(connection, schema)
        columns = [_column(connection, field, days, whole) for field in schema if field.name != PARTITION]
        repeated = _repeated(connection, key)
    counts = {day[PARTITION]: day["n"] for day in days}
    return Profile(table, first, last, counts, columns, [name for name in key if name != PARTITION], repeated)


def classify_type(kind: pa.DataType) -> Kind:
    """Return the kind of a column, which decides what a draft can expect of it."""
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if kind == pa.timestamp("us", tz="UTC"):
        return "moment"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "other"


def _by_day(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> list[dict[str, Any]]:
    """Query one row per partition: counts, minima, maxima, means, lengths (first pass)."""
    wanted = {"n": "count(*)"}
    for field in schema:
        name, value = field.name, _value(field)
        wanted[f"{name} has"] = f"count({value})"
        if classify_type(field.type) in ("whole", "number"):
            wanted |= {f"{name} min": f"min({value})", f"{name} max": f"max({value})", f"{name} mean": f"avg({value})"}
        if classify_type(field.type) == "moment":
            wanted[f"{name} newest"] = f"epoch(max({value}))"
        if classify_type(field.type) == "text":
            wanted |= {f"{name} short": f"min(length({value}))", f"{name} long": f"max(length({value}))"}
            wanted |= {f"{name} {shape}": _unlike(value, shape) for shape in SHAPES}
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in wanted.items())
    day = quote_identifier(PARTITION)
    return _rows(connection, f"SELECT {day}, {listed} FROM {_VIEW} GROUP BY {day} ORDER BY {day}")  # noqa: S608


def _over_all(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> dict[str, Any]:
    """Query quantiles and numbers of distinct values (second pass)."""
    wanted = {}
    for field in schema:
        wanted[f"{field.name} distinct"] = f"approx_count_distinct({_value(field)})"
        if classify_type(field.type) in ("whole", "number"):
            finite = f"CASE WHEN isfinite({_value(field)}::DOUBLE) THEN {_value(field)}::DOUBLE END"
            wanted[f"{field.name} quantiles"] = f"approx_quantile({finite}, [0.01, 0.5, 0.99])"
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in wanted.items())
    return _rows(connection, f"SELECT {listed} FROM {_VIEW}")[0]  # noqa: S608


def _column(
    connection: duckdb.DuckDBPyConnection, field: pa.Field, days: list[dict[str, Any]], whole: dict[str, Any]
) -> Column:
    name, kind = field.name, classify_type(field.type)
    missing = [day["n"] - day[f"{name} has"] for day in days]
    shares = [lack / day["n"] for lack, day in zip(missing, days, strict=True)]
    found = {"nulls": sum(missing), "most_null": max(shares), "distinct": whole[f"{name} distinct"]}
    if kind in ("whole", "number"):
        found |= _numbers(days, name) | {"quantiles": whole[f"{name} quantiles"] or ()}
    if kind == "moment":
        found["stale_h"] = _stale_h(days, name)
    if kind == "text":
        found |= _texts(days, name)
        if 0 < whole[f"{name} distinct"] <= MAX_VALUES:
            found["values"] = _values(connection, name, days)
    return Column(name, kind, **found)


def _numbers(days: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Compute range and means; empty where there is no value, or an infinite one."""
    some = [day for day in days if day[f"{name} has"]]
    least, most = (
        min((day[f"{name} min"] for day in some), default=None),
        max((day[f"{name} max"] for day in some), default=None),
    )
    if least is None or most is None or not (math.isfinite(least) and math.isfinite(most)):
        return {}
    means = [float(day[f"{name} mean"]) for day in some]
    # A partition without any value has no mean, and would fail an expectation about means.
    bounds = (min(means), max(means)) if len(some) == len(days) else ()
    return {"least": _plain(least), "most": _plain(most), "means": bounds}


def _stale_h(days: list[dict[str, Any]], name: str) -> float | None:
    """Compute `Column.stale_h`; None where a partition has no timestamp."""
    hours = []
    for day in days:
        if day[f"{name} newest"] is None:
            return None
        ends = dt.datetime.combine(day[PARTITION] + dt.timedelta(1), dt.time(), dt.UTC)
        hours.append((ends.timestamp() - float(day[f"{name} newest"])) / 3600)
    return max(hours)


def _texts(days: list[dict[str, Any]], name: str) -> dict[str, Any]:
    some = [day for day in days if day[f"{name} has"]]
    if not some:
        return {}
    shape = next((shape for shape in SHAPES if not any(day[f"{name} {shape}"] for day in some)), "")
    return {"lengths": (min(d[f"{name} short"] for d in some), max(d[f"{name} long"] for d in some)), "shape": shape}


def _values(connection: duckdb.DuckDBPyConnection, name: str, days: list[dict[str, Any]]) -> list[str]:
    """List all values of a column; empty where one first appeared in the later half, because more may follow."""
    day, column = quote_identifier(PARTITION), quote_identifier(name)
    each = f"SELECT {column} AS v, min({day}) AS day FROM {_VIEW} WHERE {column} IS NOT NULL GROUP BY 1"  # noqa: S608
    values = _rows(connection, each)
    half = days[len(days) // 2][PARTITION]
    closed = len(values) <= MAX_VALUES and all(value["day"] <= half for value in values)
    return sorted(value["v"] for value in values) if closed else []


def _repeated(connection: duckdb.DuckDBPyConnection, key: Sequence[str]) -> int:
    if not key:
        return 0
    columns = ", ".join(quote_identifier(name) for name in dict.fromkeys([PARTITION, *key]))
    groups = f"SELECT count(*) AS n FROM {_VIEW} GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608
    return int(_rows(connection, f"SELECT coalesce(sum(n), 0) AS n FROM ({groups})")[0]["n"])  # noqa: S608


def _value(field: pa.Field) -> str:
    """Return the SQL of a column; NaN becomes null, as in Great Expectations' pandas engine."""
    return (
        f"nullif({quote_identifier(field.name)}, 'nan')"
        if pa.types.is_floating(field.type)
        else quote_identifier(field.name)
    )


def _unlike(value: str, shape: str) -> str:
    return f"count(*) FILTER (WHERE NOT regexp_full_match({value}, {quote_text(f'{shape}+')}))"


def _plain(value: Any) -> float:
    return value if isinstance(value, int) else float(value)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    answer = connection.execute(sql)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
