"""Read the rows of one partition in DuckDB, for the checks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from pipelines.lake import Lake, connect
from pipelines.partitions import Partition, shift_partition
from pipelines.system.duckdb_session import LOW_MEMORY_MIB, quote_identifier, retry_with_more_memory
from pipelines.system.temporary_folders import make_temporary_folder

VIEW = "leeway_rows"
"""Name of the view of all rows of the partition that is judged."""
POSITION = "leeway position"
"""Column of a row's position: 0, 1, 2, ... in the order in which the rows were written."""

HISTORY_DAYS = 14
"""Number of partitions before and after the judged one whose published rows can be counted. For an hour, these are the
partitions of the same hour on this number of days."""
BATCH_ROWS = 64 * 1024
"""Number of rows in each batch that `read_batches` reads."""

Kind = Literal["int", "float", "text", "boolean", "date", "timestamp", "other"]
_KINDS: dict[pa.DataType, Kind] = {
    pa.int32(): "int",
    pa.int64(): "int",
    pa.float64(): "float",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


@dataclass
class Rows:
    """The rows of the partition that is judged, with the connection and the names that the checks need."""

    connection: duckdb.DuckDBPyConnection
    schema: pa.Schema
    lake: Lake
    partition: Partition
    published_table: str
    """Table whose partitions before and after the judged one serve as history."""
    folder: Path
    """Folder for temporary files; `open_rows` removes it when its block ends."""
    table: str = ""
    """Table whose rows are judged."""
    view: str = VIEW
    """View that has the rows."""
    count: int = 0
    """Number of rows; 0 before `suites/judging.py` has counted them."""
    table_numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers for the names of temporary tables; shared with the rows that `select` returns."""
    readers: list[pa.RecordBatchReader] = field(default_factory=list)
    """Open readers: a connection cannot run another query while one of its readers is open."""
    _published_counts: dict[Partition, int] | None = None
    _lost_partitions: set[Partition] | None = None

    def count_published_rows(self) -> dict[Partition, int]:
        """Return the number of published rows of this partition and of each partition near it.

        For an hour, these are the same hours of the days around it; for a month, the months around it. Only the first
        call reads the lake.
        """
        if self._published_counts is None:
            partitions = [
                shift_partition(self.partition, distance) for distance in range(-HISTORY_DAYS, HISTORY_DAYS + 1)
            ]
            self._published_counts = self.lake.count_rows_of_partitions(self.published_table, partitions)
        return self._published_counts

    def find_lost_partitions(self) -> set[Partition]:
        """Return the partitions of `count_published_rows` that have a lost file. Only the first call reads the lake."""
        if self._lost_partitions is None:
            self._lost_partitions = self.lake.find_lost_partitions(self.published_table, self.count_published_rows())
        return self._lost_partitions

    def get_kind(self, column: str) -> Kind:
        """Return the kind of a column, which determines the checks that it can have."""
        return _KINDS.get(self.schema.field(column).type, "other")

    def build_value_sql(self, column: str) -> str:
        """Return the SQL of a column, for a query whose rows have the alias `r`. NaN becomes null, as in pandas."""
        name = f"r.{quote_identifier(column)}"
        if pa.types.is_floating(self.schema.field(column).type):
            return f"(CASE WHEN NOT isnan({name}) THEN {name} END)"
        return name

    def select(self, condition: str) -> Rows:
        """Return the rows that meet an SQL condition, with their positions in the partition."""
        self.add_positions()
        view = self.make_table_name()
        query = f"CREATE TEMP VIEW {view} AS SELECT * FROM {self.view} AS r WHERE {condition}"  # noqa: S608
        self.connection.execute(query)
        return replace(self, view=view)

    def query(self, select: str, *, where: str = "TRUE", tail: str = "") -> list[tuple[Any, ...]]:
        """Run a query over the partition's rows, and return its result.

        The rows have the alias `r`. `tail` is the SQL after the condition, such as ORDER BY.
        """
        query = f"SELECT {select} FROM {self.view} AS r WHERE {where} {tail}"  # noqa: S608
        return self.execute(query)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute an SQL statement, and return its result."""
        return retry_with_more_memory(self.connection, lambda: self.connection.execute(statement).fetchall())

    def make_table_name(self) -> str:
        """Make a new name for a temporary table."""
        return f"leeway_{next(self.table_numbers)}"

    def add_positions(self) -> None:
        """Add the column `POSITION` to the rows. Idempotent."""
        if self.view == VIEW:
            self.view = "leeway_numbered"
            position = f"row_number() OVER () - 1 AS {quote_identifier(POSITION)}"
            self.connection.execute(f"CREATE TEMP VIEW {self.view} AS SELECT *, {position} FROM {VIEW}")  # noqa: S608

    def read_batches(self, select: str, where: str) -> pa.RecordBatchReader:
        """Read the result of a query in batches, in order; memory does not grow with the number of rows."""
        query = f"SELECT {select} FROM {self.view} AS r WHERE {where}"  # noqa: S608
        reader = retry_with_more_memory(self.connection, lambda: self.connection.sql(query).to_arrow_reader(BATCH_ROWS))
        self.readers.append(reader)
        return reader

    def build_columns_sql(self) -> str:
        """Return the SQL of all columns of the table."""
        return ", ".join(f"r.{quote_identifier(name)}" for name in self.schema.names)


@contextmanager
def open_rows(lake: Lake, table: str, partition: Partition, published_table: str) -> Iterator[Rows]:
    """Open one partition of a table; close it after the block.

    Args:
        lake: lake with the table.
        table: table whose rows are judged.
        partition: the partition.
        published_table: table whose partitions before and after the judged one serve as history.

    Raises:
        DataError: the lake has no such table. A retry cannot help.
    """
    with (
        connect(LOW_MEMORY_MIB) as connection,
        make_temporary_folder() as folder,
        lake.create_view(connection, VIEW, table, partition, partition),
    ):
        # DuckDB 2.0 would keep the content of the files in memory.
        connection.execute("SET enable_external_file_cache = false")
        rows = Rows(connection, lake.read_schema(table), lake, partition, published_table, folder, table)
        try:
            yield rows
        finally:
            for reader in rows.readers:
                reader.close()


def to_literal(value: Any) -> str:
    """Convert a JSON value to an SQL literal. A whole number below 2^53 becomes an integer, other numbers a DOUBLE."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and not value.is_integer():
        return f"{value!r}::DOUBLE"
    return str(int(value)) if abs(value) < 2**53 else f"{value!r}::DOUBLE"


def to_exact_literal(value: Any) -> str:
    """Convert a JSON value to an SQL literal. An integer stays an integer, even if a float cannot hold it."""
    return str(value) if isinstance(value, int) else to_literal(value)


def list_literals(values: Sequence[Any]) -> str:
    """Convert values to SQL literals, separated by commas, for the operator IN."""
    return ", ".join(to_exact_literal(value) for value in values)
