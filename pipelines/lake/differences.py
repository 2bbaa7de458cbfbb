"""Count how many rows of a partition a write changes. Memory use does not grow with the partition.

Rows are compared by 64-bit hashes of the row and of its key, which DuckDB computes. The hashes are written to `BUCKETS`
files, and compared one file at a time. The hash of the key decides in which file a row is, so all rows of a key
are in one file. The probability that a changed row is not noticed is 2^-64.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyiceberg.table import DataScan

from pipelines.errors import DataError
from pipelines.lake import views
from pipelines.lake.commits import ChangeCounts
from pipelines.lake.new_files import NewFiles
from pipelines.system.duckdb_session import connect, create_view, quote_identifier
from pipelines.system.error_translation import describe_reason, translate_error
from pipelines.system.lake_errors import RESTORE_DAY
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder

BUCKETS = 64
"""Number of files for the hashes. For 10 million old and 10 million new rows, each file has 5 MB."""
BATCH_ROWS = 64 * 1024
"""Number of rows whose hashes are read at a time."""
_HASH_TYPE = np.dtype([("key", "u8"), ("row", "u8"), ("is_old", "?")])
# One query for old and new rows, so that a column has one type: equal numbers of different types, such as an integer
# and a float, have different hashes.
_HASH_QUERY = """
SELECT hash({key}) AS key, hash({row}) AS row, {is_old} AS is_old
FROM (SELECT true AS {is_old}, * FROM old_rows UNION ALL BY NAME SELECT false AS {is_old}, * FROM new_rows)
"""


def count_changes(
    old_scan: DataScan, new_files: NewFiles, key: Sequence[str], ignored_columns: Sequence[str] = ()
) -> ChangeCounts:
    """Count how many rows differ between the scan and the new files. The order of the rows does not matter.

    Args:
        old_scan: the rows that the partition has.
        new_files: files with the rows that the partition will have.
        key: columns that identify a row. Without them, a changed row is counted as one removed and one added.
        ignored_columns: columns that are not compared.

    Returns:
        The changes. If the old rows cannot be read because their file is damaged, all new rows are counted as added.

    Raises:
        DataError: a column of the key is in neither the old nor the new rows. A retry cannot help.
    """
    try:
        return _compare(old_scan, new_files, key, ignored_columns)
    except (duckdb.Error, DataError) as error:
        if translate_error(error).hint != RESTORE_DAY:
            raise
        log.warning("the old rows cannot be read, and are replaced: %s", describe_reason(error))
        return ChangeCounts(added=new_files.rows)


def _compare(
    old_scan: DataScan, new_files: NewFiles, key: Sequence[str], ignored_columns: Sequence[str]
) -> ChangeCounts:
    schema = _merge_schemas(views.read_schema(old_scan), new_files.schema)
    _check_key(schema, key)
    compared_columns = [name for name in schema.names if name not in ignored_columns]
    with connect() as connection, make_temporary_folder() as folder:
        with (
            views.create_scan_view(connection, "old_rows", old_scan, schema),
            create_view(connection, "new_rows", views.fetch_files(old_scan.io, new_files.paths, folder), schema),
        ):
            _write_buckets(_read_hashes(connection, compared_columns, key or compared_columns), folder)
        paths = [_get_bucket_path(folder, number) for number in range(BUCKETS)]
        counts = [_count_bucket(np.fromfile(path, _HASH_TYPE)) for path in paths]
    added_count, removed_count, pairs = (sum(column) for column in zip(*counts, strict=True))
    changed_count = pairs if key else 0
    return ChangeCounts(added=added_count - changed_count, removed=removed_count - changed_count, changed=changed_count)


def _check_key(schema: pa.Schema, key: Sequence[str]) -> None:
    """Raise a DataError if the rows lack a column of the key."""
    missing_columns = [column for column in key if column not in schema.names]
    if missing_columns:
        columns = ", ".join(schema.names[:40])
        raise DataError(
            f"the rows have no column {missing_columns[0]}, which the dataset's key names.",
            f"Correct `key` of the dataset. Columns of the rows: {columns}.",
        )


def _merge_schemas(old_schema: pa.Schema, new_schema: pa.Schema) -> pa.Schema:
    """Return the columns of both schemas. If both have a column, it has the type of the new schema."""
    types = {column.name: column.type for column in old_schema} | {column.name: column.type for column in new_schema}
    return pa.schema(list(types.items()))


def _read_hashes(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], key: Sequence[str]
) -> pa.RecordBatchReader:
    # DuckDB 2.0 would keep the content of the files in memory, although each file is read only once.
    connection.execute("SET enable_external_file_cache = false")
    connection.execute("SET preserve_insertion_order = false")
    row_columns, key_columns = (", ".join(quote_identifier(name) for name in names) for names in (columns, key))
    # "leeway is_old": the rows may have a column `is_old` of their own.
    query = _HASH_QUERY.format(key=key_columns, row=row_columns, is_old=quote_identifier("leeway is_old"))
    return connection.sql(query).to_arrow_reader(BATCH_ROWS)


def _write_buckets(hashes: pa.RecordBatchReader, folder: Path) -> None:
    """Write the hashes to files; all rows of a key are in one file."""
    with ExitStack() as stack:
        files = [stack.enter_context(_get_bucket_path(folder, number).open("wb")) for number in range(BUCKETS)]
        for batch in hashes:
            records = np.empty(batch.num_rows, _HASH_TYPE)
            for name in _HASH_TYPE.names or ():
                records[name] = batch[name].to_numpy(zero_copy_only=False)
            buckets = (records["key"] % BUCKETS).astype("u1")
            order = np.argsort(buckets, kind="stable")
            ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS))
            for file, rows in zip(files, np.split(records[order], ends[:-1]), strict=True):
                rows.tofile(file)


def _get_bucket_path(folder: Path, number: int) -> Path:
    return folder / f"{number:02d}.hashes"


def _count_bucket(records: np.ndarray) -> tuple[int, int, int]:
    """Return the numbers of added rows, of removed rows, and of pairs of an added and a removed row with equal keys."""
    distinct_rows, first_index, row_index = np.unique(records["row"], return_index=True, return_inverse=True)
    # How many copies of each distinct row there are after the write, minus how many there were before it.
    net_counts = np.bincount(row_index, np.where(records["is_old"], -1, 1), len(distinct_rows))
    keys, key_index = np.unique(records["key"][first_index], return_inverse=True)
    added_counts, removed_counts = (
        np.bincount(key_index, np.maximum(counts, 0), len(keys)) for counts in (net_counts, -net_counts)
    )
    return int(added_counts.sum()), int(removed_counts.sum()), int(np.minimum(added_counts, removed_counts).sum())
