"""The rows of one partition in DuckDB, as the checks see them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import duckdb
import pyarrow as pa

from pipelines.lake import Lake, connect
from pipelines.system.duckdb_session import quote_identifier

VIEW = "leeway_rows"
POSITION = "leeway position"
"""Column of the numbered rows: 0, 1, 2, ... in the order in which they were written."""

Kind = Literal["int", "float", "text", "flag", "day", "moment", "other"]
_KINDS: dict[pa.DataType, Kind] = {
    pa.int32(): "int",
    pa.int64(): "int",
    pa.float64(): "float",
    pa.string(): "text",
    pa.bool_(): "flag",
    pa.date32(): "day",
    pa.timestamp("us", tz="UTC"): "moment",
}


@dataclass
class Rows:
    """A partition that is judged."""

    connection: duckdb.DuckDBPyConnection
    schema: pa.Schema
    lake: Lake
    day: dt.date
    published: str
    """Table whose earlier partitions are the history."""
    source: str = VIEW
    """View that has the rows."""
    count: int = 0
    """How many; known after the first pass."""
    made: int = 0
    """Temporary tables made so far."""
    readers: list[pa.RecordBatchReader] = field(default_factory=list)
    """Those given out; a connection with one that is open does nothing else."""

    def kind(self, column: str) -> Kind:
        """What the checks may do with a column."""
        return _KINDS.get(self.schema.field(column).type, "other")

    def value(self, column: str) -> str:
        """SQL of a column of `r`; NaN is null, as it is to pandas."""
        name = f"r.{quote_identifier(column)}"
        if pa.types.is_floating(self.schema.field(column).type):
            return f"(CASE WHEN NOT isnan({name}) THEN {name} END)"
        return name

    def ask(self, select: str, *, where: str = "TRUE", tail: str = "") -> list[tuple[Any, ...]]:
        """The rows of a query over the partition's rows, `r`."""
        query = f"SELECT {select} FROM {self.source} AS r WHERE {where} {tail}"  # noqa: S608
        return list(self.connection.execute(query).fetchall())

    def new_name(self) -> str:
        """A name for a temporary table."""
        self.made += 1
        return f"leeway_{self.made}"

    def number(self) -> None:
        """From here on the rows have the column `POSITION`."""
        if self.source == VIEW:
            self.source = "leeway_numbered"
            place = f"row_number() OVER () - 1 AS {quote_identifier(POSITION)}"
            self.connection.execute(f"CREATE TEMP VIEW {self.source} AS SELECT *, {place} FROM {VIEW}")  # noqa: S608

    def batches(self, select: str, where: str) -> pa.RecordBatchReader:
        """The rows of a query, in their order; memory does not grow with their number."""
        query = f"SELECT {select} FROM {self.source} AS r WHERE {where}"  # noqa: S608
        reader = self.connection.sql(query).to_arrow_reader(BATCH_ROWS)
        self.readers.append(reader)
        return reader

    def columns(self) -> str:
        """SQL of all columns of the table."""
        return ", ".join(f"r.{quote_identifier(name)}" for name in self.schema.names)


BATCH_ROWS = 64 * 1024


@contextmanager
def rows_of(lake: Lake, table: str, day: dt.date, published: str) -> Iterator[Rows]:
    """The partition `day` of a table, to be judged; gone when the block ends.

    Args:
        lake: that has the table.
        table: the one whose rows are judged.
        day: the partition.
        published: the table whose earlier partitions are the history.

    Raises:
        DataError: there is no such table.
    """
    with connect() as connection, lake.create_view(connection, VIEW, table, day, day):
        rows = Rows(connection, lake.read_schema(table), lake, day, published)
        try:
            yield rows
        finally:
            for reader in rows.readers:
                reader.close()


def literal(value: Any) -> str:
    """A JSON value for SQL; a whole number stays whole, so that it compares exactly."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and not value.is_integer():
        return f"{value!r}::DOUBLE"
    return str(int(value)) if abs(value) < 2**53 else f"{value!r}::DOUBLE"


def listed(values: Sequence[Any]) -> str:
    """Values for SQL's IN."""
    return ", ".join(literal(one) for one in values)
