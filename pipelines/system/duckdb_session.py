"""Query local Parquet files with DuckDB, without network access. At its memory limit, DuckDB spills to LEEWAY_HOME.

This module does not import the lake, so that a window that the step `pack` wrote can be read without Iceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.settings import settings
from pipelines.system.data_files import explain_damage
from pipelines.system.lake_errors import RESTORE_DAY
from pipelines.system.temporary_folders import make_temporary_folder

LOW_MEMORY_MIB = 128
"""Memory limit, MiB, of a connection that sorts, groups or joins all rows of a partition. DuckDB spills to disk only
at the limit, so with a higher limit the memory of the process would grow with the partition."""
T = TypeVar("T")


@contextmanager
def connect(memory_mib: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection to an empty database in memory; when the block ends, remove the files that it spilled.

    Args:
        memory_mib: memory limit, MiB, if it is lower than LEEWAY_MEMORY_MIB; None: LEEWAY_MEMORY_MIB.
    """
    limit_mib = min(memory_mib or settings().memory_mib, settings().memory_mib)
    with make_temporary_folder() as folder:
        config = {
            "memory_limit": f"{limit_mib}MiB",
            "temp_directory": str(folder),
            # By default DuckDB downloads extensions.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            # stdout is for the step's result. DuckDB 2.0 draws a progress bar there if `sql` takes over two seconds.
            connection.execute("SET enable_progress_bar_print = false")
            # DuckDB 2.0 uses Parquet's statistics, which ignore NaN: for NaN, isnan(x) would be false, x <= 5 true.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            yield connection


def retry_with_more_memory(connection: duckdb.DuckDBPyConnection, query: Callable[[], T]) -> T:
    """Run `query`. If it runs out of memory, enforce spilling and repeat; then raise the limit and repeat once more.

    DuckDB 2.0 does not spill a sort that is a little too large for the memory, and fails. Enforced spilling is not
    always enough: with many columns and many threads, a query needs more than `LOW_MEMORY_MIB`.

    Args:
        connection: connection that `query` uses; the changed settings stay.
        query: function that runs a query; it is called up to three times.

    Raises:
        duckdb.OutOfMemoryException: the query needs more than LEEWAY_MEMORY_MIB. A retry cannot help.
    """
    for setting in ("debug_force_external = true", f"memory_limit = '{settings().memory_mib}MiB'"):
        try:
            return query()
        except duckdb.OutOfMemoryException:
            connection.execute(f"SET {setting}")
    return query()


@contextmanager
def create_view(
    connection: duckdb.DuckDBPyConnection, name: str, paths: Sequence[str], schema: pa.Schema
) -> Iterator[None]:
    """Create a DuckDB view of Parquet files with `replace_view`; drop it when the block ends."""
    replace_view(connection, name, paths, schema)
    try:
        yield
    finally:
        connection.execute(f"DROP VIEW IF EXISTS {quote_identifier(name)}")


def replace_view(connection: duckdb.DuckDBPyConnection, name: str, paths: Sequence[str], schema: pa.Schema) -> None:
    """Create or replace a DuckDB view of the rows of Parquet files, with the columns of `schema`.

    If a file lacks a column, the column is null in the rows of the file.
    """
    # The query is not a union with an empty table of `schema`: that hides the files' statistics from DuckDB 2.0, and
    # window functions over rows without statistics take twice the time.
    # `schema.empty_table()` would import pandas, which takes half a second.
    types = connection.from_arrow(pa.Table.from_batches([], schema=schema)).types
    files = ", ".join(quote_text(path) for path in paths)
    rows_sql = f"read_parquet([{files}], union_by_name = true, hive_partitioning = false)" if paths else "range(0)"
    # DuckDB ignores the case of column names.
    file_columns = {column.lower() for column in read_columns(connection, rows_sql, paths)} if paths else set()
    columns = ", ".join(
        f"CAST({quote_identifier(column) if column.lower() in file_columns else 'NULL'} AS {column_type}) "
        f"AS {quote_identifier(column)}"
        for column, column_type in zip(schema.names, types, strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote_identifier(name)} AS SELECT {columns} FROM {rows_sql}")  # noqa: S608


def read_columns(connection: duckdb.DuckDBPyConnection, rows_sql: str, paths: Sequence[str]) -> list[str]:
    """Return the columns of Parquet files, without reading their rows.

    Args:
        connection: connection to DuckDB.
        rows_sql: SQL that reads the files.
        paths: the files.

    Raises:
        DataError: the metadata of a file cannot be read. A retry cannot help.
    """
    try:
        return list(connection.sql(f"FROM {rows_sql}").columns)
    except duckdb.Error:
        for path in paths:  # DuckDB 2.0 does not always name the file
            with explain_damage(path, RESTORE_DAY):
                pq.read_metadata(path)
        raise


def quote_identifier(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """Quote a string for SQL."""
    return "'" + value.replace("'", "''") + "'"
