"""Create views of the lake's rows in DuckDB, which reads the data files itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.table import DataScan, FileScanTask

from pipelines.errors import DataError
from pipelines.lake import storage
from pipelines.lake.evolution import to_iceberg_schema
from pipelines.system.duckdb_session import create_view
from pipelines.system.lake_errors import RESTORE_DAY
from pipelines.system.temporary_folders import make_temporary_folder


@contextmanager
def create_scan_view(
    connection: duckdb.DuckDBPyConnection, name: str, scan: DataScan, schema: pa.Schema | None = None
) -> Iterator[None]:
    """Create DuckDB's view `name` of the scan's rows; drop it when the block ends.

    Args:
        connection: connection to DuckDB.
        name: name of the view.
        scan: rows of the view; its filter must select whole partitions.
        schema: columns of the view; None: the scan's columns. Columns that the rows lack are null.
    """
    with open_files(scan) as paths, create_view(connection, name, paths, schema or read_schema(scan)):
        yield


@contextmanager
def open_files(scan: DataScan) -> Iterator[list[str]]:
    """Yield paths on this machine of Parquet files with the scan's rows, valid until the block ends.

    The scan's filter must select whole partitions, because whole files are returned.
    """
    tasks = list_data_files(scan)
    with make_temporary_folder() as folder:
        # Other engines delete rows by writing delete files, which DuckDB would ignore.
        if any(task.delete_files for task in tasks):
            yield [_write_remaining_rows(scan, folder)]
        else:
            yield fetch_files(scan.io, [task.file.file_path for task in tasks], folder)


def fetch_files(io: FileIO, locations: Sequence[str], folder: Path) -> list[str]:
    """Return a path on this machine for each data file; copy a file to `folder` if DuckDB cannot read it where it is.

    Raises:
        DataError: a file that has to be copied does not exist. A retry cannot help.
        ServiceError: the storage does not answer. A retry can help.
    """
    return [
        _find_local_path(location) or _copy_file(io, location, folder / str(number))
        for number, location in enumerate(locations)
    ]


def have_digest(io: FileIO, tasks: Sequence[FileScanTask], digest: str) -> bool:
    """Return whether the content of data files has this digest, so that none of them is missing or damaged.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    try:
        return storage.compute_digest(io, [task.file.file_path for task in tasks]) == digest
    except OSError:
        return False


def is_complete(io: FileIO, task: FileScanTask) -> bool:
    """Return whether a data file exists and has the size that it was written with. Its content is not read.

    Raises:
        ServiceError: the storage does not answer. A retry can help.
    """
    try:
        return bool(storage.find_size(io, task.file.file_path) == task.file.file_size_in_bytes)
    except OSError:
        return False


def list_data_files(scan: DataScan) -> list[FileScanTask]:
    """Return the scan's data files, always in the same order."""
    return sorted(scan.plan_files(), key=lambda task: build_sort_key(task.file.file_path))


def read_schema(scan: DataScan) -> pa.Schema:
    """Return the scan's columns."""
    return to_iceberg_schema(scan.projection().as_arrow())


def _find_local_path(location: str) -> str:
    """Return the path of a data file on this machine; empty if DuckDB cannot read it there.

    DuckDB cannot read a file in remote storage, or one whose path has a wildcard: it would look for matching files.
    """
    path = storage.get_local_path(location)
    return "" if path is None or set("*?[") & set(str(path)) else str(path)


def build_sort_key(location: str) -> tuple[str, str]:
    """Return a key that sorts files by the number at the end of their names: the order in which they were written."""
    folder, _, name = location.rpartition("/")
    return folder, name.rpartition("-")[2]


def _copy_file(io: FileIO, location: str, folder: Path) -> str:
    """Copy a data file to `folder`; return the path of the copy.

    The path ends with the last three parts of `location`, so that an error that names the copy identifies the file.
    """
    path = folder.joinpath(*location.split("/")[-3:])
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return str(storage.download_file(io, location, path))
    except FileNotFoundError:
        raise DataError(f"{location} does not exist.", RESTORE_DAY) from None


def _write_remaining_rows(scan: DataScan, folder: Path) -> str:
    """Write the rows that were not deleted to one file; return its path."""
    path, schema = folder / "rows.parquet", read_schema(scan)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in scan.to_arrow_batch_reader():
            writer.write_batch(batch.cast(schema))
    return str(path)
