"""The lake's rows in DuckDB, read from the data files themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import DataScan, FileScanTask

from pipelines.lake.evolution import to_iceberg_schema
from pipelines.system.duckdb_session import create_view, spill_folder


@contextmanager
def create_scan_view(
    connection: duckdb.DuckDBPyConnection, name: str, scan: DataScan, schema: pa.Schema | None = None
) -> Iterator[None]:
    """DuckDB's view `name` has the scan's rows for as long as the block lasts.

    Args:
        connection: to DuckDB.
        name: of the view.
        scan: whose filter is one of whole partitions.
        schema: the view's columns; the scan's where it is not given. Those that the rows lack are null.
    """
    with open_files(scan) as paths, create_view(connection, name, paths, schema or read_schema(scan)):
        yield


@contextmanager
def open_files(scan: DataScan) -> Iterator[list[str]]:
    """Paths on this machine of Parquet files that have the scan's rows, for as long as the block lasts."""
    tasks = list_files(scan)
    with spill_folder() as folder:
        if any(task.delete_files for task in tasks):  # another engine's way to delete rows; DuckDB would read them
            yield [_write_remaining_rows(scan, folder)]
        else:
            yield localize_files(scan.io, [task.file.file_path for task in tasks], folder)


def localize_files(io: FileIO, locations: Sequence[str], folder: Path) -> list[str]:
    """Paths on this machine of data files; those that are elsewhere are copied to `folder`."""
    return [_local_path(one) or _copy(io, one, folder / f"{number}.parquet") for number, one in enumerate(locations)]


def list_files(scan: DataScan) -> list[FileScanTask]:
    """The scan's data files, in an order that does not change."""
    return sorted(scan.plan_files(), key=lambda task: _sort_key(task.file.file_path))


def read_schema(scan: DataScan) -> pa.Schema:
    """The scan's columns."""
    return to_iceberg_schema(scan.projection().as_arrow())


def _local_path(location: str) -> str:
    """The path of a data file on this machine; empty where it is on another, or DuckDB would take it for a pattern."""
    scheme, _, path = PyArrowFileIO.parse_location(location)
    return "" if scheme not in ("file", "") or set("*?[") & set(path) else str(path)


def _sort_key(location: str) -> tuple[str, str]:
    """Of a partition's files by their number, which ends the name: rows come in the order they were written in."""
    folder, _, name = location.rpartition("/")
    return folder, name.rpartition("-")[2]


def _copy(io: FileIO, location: str, path: Path) -> str:
    with io.new_input(location).open() as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    return str(path)


def _write_remaining_rows(scan: DataScan, folder: Path) -> str:
    path, schema = folder / "rows.parquet", read_schema(scan)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in scan.to_arrow_batch_reader():
            writer.write_batch(batch.cast(schema))
    return str(path)
