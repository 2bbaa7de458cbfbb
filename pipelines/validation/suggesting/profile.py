"""The figures of a window of a table, in a few passes of DuckDB over the data files; memory does not grow with it."""

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
"""Characters that codes are made of, the narrowest first."""
MAX_VALUES = 40
"""Different values of a column that a draft may list."""
_VIEW = "rows"


@dataclass(frozen=True)
class Column:
    """What a column holds in the window. Not-a-number counts as null."""

    name: str
    kind: Kind
    nulls: int
    most_null: float
    """Share of nulls in the partition that has most of them."""
    distinct: int
    """Different values, about."""
    least: float | None = None
    most: float | None = None
    quantiles: Sequence[float] = ()
    """At 1 %, 50 % and 99 %, about."""
    means: Sequence[float] = ()
    """The least and the greatest mean of a partition; none where a partition has no value."""
    lengths: tuple[int, int] | None = None
    shape: str = ""
    """One of `SHAPES`, of which every value is made; empty where there is none."""
    stale_h: float | None = None
    """Hours from the newest moment of a partition to the partition's end, where they were most."""
    values: Sequence[str] = ()
    """All of them, where they are few and none came new in the later half of the window."""


@dataclass(frozen=True)
class Profile:
    """What a window of a table looks like."""

    table: str
    first: dt.date
    last: dt.date
    days: Mapping[dt.date, int]
    """Partitions that have rows, to their number."""
    columns: Sequence[Column]
    key: Sequence[str] = ()
    """Columns that should name a row of a partition uniquely."""
    repeated: int = 0
    """Rows that have the key of another row of their partition."""

    @property
    def rows(self) -> int:
        """In the window."""
        return sum(self.days.values())


def profile_table(table: str, first: dt.date, last: dt.date, key: Sequence[str] = ()) -> Profile:
    """The profile of the partitions `first`..`last` of a table of the lake.

    Raises:
        DataError: there is no such table, the window has no rows, or a column of the key is not there.
    """
    lake = Lake.open()
    schema = lake.read_schema(table)
    missing = [one for one in key if one not in schema.names]
    if missing:
        raise DataError(f"table {table} lacks the column(s) {', '.join(missing)} of its key.")
    with connect() as connection, lake.create_view(connection, _VIEW, table, first, last):
        days = _by_day(connection, schema)
        if not days:
            raise DataError(f"table {table} has no rows from {first} to {last}.", "Ingest and validate them first.")
        whole = _over_all(connection, schema)
        columns = [_column(connection, one, days, whole) for one in schema if one.name != PARTITION]
        repeated = _repeated(connection, key)
    counts = {one[PARTITION]: one["n"] for one in days}
    return Profile(table, first, last, counts, columns, [one for one in key if one != PARTITION], repeated)


def kind_of(kind: pa.DataType) -> Kind:
    """What a draft can say of columns of this type."""
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if kind == pa.timestamp("us", tz="UTC"):
        return "moment"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "other"


def _by_day(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> list[dict[str, Any]]:
    """A row a partition: counts, extremes, means, lengths; the first pass."""
    wanted = {"n": "count(*)"}
    for one in schema:
        name, value = one.name, _value(one)
        wanted[f"{name} has"] = f"count({value})"
        if kind_of(one.type) in ("whole", "number"):
            wanted |= {f"{name} min": f"min({value})", f"{name} max": f"max({value})", f"{name} mean": f"avg({value})"}
        if kind_of(one.type) == "moment":
            wanted[f"{name} newest"] = f"epoch(max({value}))"
        if kind_of(one.type) == "text":
            wanted |= {f"{name} short": f"min(length({value}))", f"{name} long": f"max(length({value}))"}
            wanted |= {f"{name} {shape}": _unlike(value, shape) for shape in SHAPES}
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in wanted.items())
    day = quote_identifier(PARTITION)
    return _rows(connection, f"SELECT {day}, {listed} FROM {_VIEW} GROUP BY {day} ORDER BY {day}")  # noqa: S608


def _over_all(connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> dict[str, Any]:
    """Quantiles and numbers of different values; the second pass."""
    wanted = {}
    for one in schema:
        wanted[f"{one.name} distinct"] = f"approx_count_distinct({_value(one)})"
        if kind_of(one.type) in ("whole", "number"):
            finite = f"CASE WHEN isfinite({_value(one)}::DOUBLE) THEN {_value(one)}::DOUBLE END"
            wanted[f"{one.name} quantiles"] = f"approx_quantile({finite}, [0.01, 0.5, 0.99])"
    listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in wanted.items())
    return _rows(connection, f"SELECT {listed} FROM {_VIEW}")[0]  # noqa: S608


def _column(
    connection: duckdb.DuckDBPyConnection, one: pa.Field, days: list[dict[str, Any]], whole: dict[str, Any]
) -> Column:
    name, kind = one.name, kind_of(one.type)
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
    """Extremes and means; nothing where there is no value, or one that is infinite."""
    some = [day for day in days if day[f"{name} has"]]
    least, most = (
        min((day[f"{name} min"] for day in some), default=None),
        max((day[f"{name} max"] for day in some), default=None),
    )
    if least is None or most is None or not (math.isfinite(least) and math.isfinite(most)):
        return {}
    means = [float(day[f"{name} mean"]) for day in some]
    # A partition without any value has no mean: it would fail what is said of means.
    bounds = (min(means), max(means)) if len(some) == len(days) else ()
    return {"least": _plain(least), "most": _plain(most), "means": bounds}


def _stale_h(days: list[dict[str, Any]], name: str) -> float | None:
    """None where a partition has no moment."""
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
    shape = next((one for one in SHAPES if not any(day[f"{name} {one}"] for day in some)), "")
    return {"lengths": (min(d[f"{name} short"] for d in some), max(d[f"{name} long"] for d in some)), "shape": shape}


def _values(connection: duckdb.DuckDBPyConnection, name: str, days: list[dict[str, Any]]) -> list[str]:
    """All values of a column, unless one came new in the later half: then more may come."""
    day, column = quote_identifier(PARTITION), quote_identifier(name)
    each = f"SELECT {column} AS v, min({day}) AS day FROM {_VIEW} WHERE {column} IS NOT NULL GROUP BY 1"  # noqa: S608
    told = _rows(connection, each)
    half = days[len(days) // 2][PARTITION]
    closed = len(told) <= MAX_VALUES and all(one["day"] <= half for one in told)
    return sorted(one["v"] for one in told) if closed else []


def _repeated(connection: duckdb.DuckDBPyConnection, key: Sequence[str]) -> int:
    if not key:
        return 0
    columns = ", ".join(quote_identifier(one) for one in dict.fromkeys([PARTITION, *key]))
    groups = f"SELECT count(*) AS n FROM {_VIEW} GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608
    return int(_rows(connection, f"SELECT coalesce(sum(n), 0) AS n FROM ({groups})")[0]["n"])  # noqa: S608


def _value(one: pa.Field) -> str:
    """The column; null where it is not a number, as for Great Expectations' pandas engine."""
    return (
        f"nullif({quote_identifier(one.name)}, 'nan')" if pa.types.is_floating(one.type) else quote_identifier(one.name)
    )


def _unlike(value: str, shape: str) -> str:
    return f"count(*) FILTER (WHERE NOT regexp_full_match({value}, {quote_text(f'{shape}+')}))"


def _plain(value: Any) -> float:
    return value if isinstance(value, int) else float(value)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    answer = connection.execute(sql)
    names = [one[0] for one in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
