"""DuckDB over Parquet files: bounded memory, spilling to LEEWAY_HOME, no network.

Knows nothing of the lake: a packed window is read without the start of Iceberg.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from pipelines.settings import settings

MEMORY_MB = 768
"""Of DuckDB's own; what does not fit goes to the disk."""


@contextmanager
def connect(memory_mb: int = MEMORY_MB) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty database in memory, gone with all that it spilled when the block ends.

    Args:
        memory_mb: its limit, MiB.
    """
    with spill_folder() as folder:
        config = {
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": str(folder),
            # It would download them.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # DuckDB 2.0 would draw it on stdout, which has the step's result, once `sql` takes more than two seconds.
            connection.execute("SET enable_progress_bar_print = false")
            yield connection


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what one process needs for a while, gone when the block ends."""
    place = settings().home / "tmp"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix="spill-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def create_view(
    connection: duckdb.DuckDBPyConnection, name: str, paths: Sequence[str], schema: pa.Schema
) -> Iterator[None]:
    """DuckDB's view `name` has the rows of Parquet files in the columns of `schema`, whichever of them a file has."""
    replace_view(connection, name, paths, schema)
    try:
        yield
    finally:
        connection.execute(f"DROP VIEW IF EXISTS {quote_identifier(name)}")


def replace_view(connection: duckdb.DuckDBPyConnection, name: str, paths: Sequence[str], schema: pa.Schema) -> None:
    """DuckDB's view `name` has from now on the rows that `view_of` tells of.

    Its query is no union with an empty table of `schema`: that hides the files' statistics from DuckDB 2.0, and a
    window function over rows without them takes twice the time.
    """
    # Not `schema.empty_table()`: that starts pandas, which takes a process half a second.
    kinds = connection.from_arrow(pa.Table.from_batches([], schema=schema)).types
    listed = ", ".join(quote_text(one) for one in paths)
    rows = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)" if paths else "range(0)"
    there = {one.lower() for one in connection.sql(f"FROM {rows}").columns} if paths else set()  # no case in DuckDB
    columns = ", ".join(
        f"CAST({quote_identifier(one) if one.lower() in there else 'NULL'} AS {kind}) AS {quote_identifier(one)}"
        for one, kind in zip(schema.names, kinds, strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote_identifier(name)} AS SELECT {columns} FROM {rows}")  # noqa: S608


def quote_identifier(name: str) -> str:
    """An identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A string for SQL."""
    return "'" + value.replace("'", "''") + "'"
