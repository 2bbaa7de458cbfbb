"""Write the new rows of a partition to Parquet files in the table's folder, and commit these files.

The files are written one row group at a time, so memory does not grow with the partition. Until the commit, no snapshot
refers to the files, so nothing reads them. If the writer dies before the commit, its files remain unused.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot

from pipelines.errors import DataError
from pipelines.lake.commits import DATE_COLUMN, DIGEST_PROPERTY, PARTITION_PROPERTY, RETRIES_PROPERTY
from pipelines.lake.evolution import to_iceberg_schema
from pipelines.lake.transaction import CachingTransaction
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, get_date, get_unit

GROUP_ROWS = 128 * 1024
"""Number of rows in a row group of a Parquet file."""
FILE_BYTES = 512 * 1024 * 1024
"""Size of a file, bytes, after which the next file begins."""


def check_first_rows(
    partition: Partition, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Check the columns and the first rows, before a table is created for them; return batches with the same rows.

    Raises:
        DataError: there are no rows, or `date` or `hour` is missing or of a wrong type, or the first rows are of
            another partition. A retry cannot help.
    """
    if DATE_COLUMN not in schema.names or not pa.types.is_date32(schema.field(DATE_COLUMN).type):
        raise DataError(
            f"partition {partition} has no column {DATE_COLUMN} of dates. Its columns: {', '.join(schema.names[:40])}."
        )
    if isinstance(partition, Hour) and (
        HOUR_COLUMN not in schema.names or schema.field(HOUR_COLUMN).type != pa.int32()
    ):
        message = f"partition {partition} has no column {HOUR_COLUMN} of int32, 0 to 23."
        raise DataError(message, "A FileSource with partition='hour' adds it.")
    first_batch = next((batch for batch in batches if batch.num_rows), None)
    if first_batch is None:
        raise DataError(f"partition {partition} must hold rows of that {get_unit(partition)}, but holds none.")
    _check_partition(partition, first_batch)
    return chain([first_batch], batches)


@dataclass
class NewFiles:
    """Files with the new rows of one partition."""

    schema: pa.Schema
    """Columns of the files."""
    paths: list[str] = field(default_factory=list)
    rows: int = 0
    digest: str = ""
    """SHA-256 over the files, in the order of `paths`. Equal rows in equal order give equal bytes."""
    must_stay: bool = False
    """Whether the files stay in any case: a commit of them returned without an error, or they were written to a folder
    and not to a table (`write_local_files`). If not, `remove_unused_files` decides at the end of the block of
    `write_new_files` whether they stay."""
    is_commit_begun: bool = False
    """Whether a commit of the files has begun. If it then raises an error, it may have succeeded nevertheless: only the
    catalog knows."""


@contextmanager
def write_new_files(
    table: Table, partition: Partition, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[NewFiles]:
    """Write the batches to files in the table's folder; remove them after the block, unless a snapshot may need them.

    Args:
        table: the table of the partition.
        partition: the partition; every row must be of this partition.
        schema: columns of the files, to which the batches are cast.
        batches: the rows; they are read once.

    Raises:
        DataError: there are rows of another partition, or no rows, or a value does not fit its column. A retry cannot
            help.
    """
    new_files, digest = NewFiles(schema), hashlib.sha256()
    try:
        groups = regroup_rows(schema, (_cast(partition, schema, batch) for batch in batches))
        for number, first_group in enumerate(groups):
            path = f"{table.location()}/data/{DATE_COLUMN}={get_date(partition)}/{uuid.uuid4()}-{number:05d}.parquet"
            new_files.paths.append(path)
            new_files.rows += _write_file(table, path, first_group, groups, digest)
        if not new_files.rows:
            raise DataError(f"partition {partition} must hold rows of that {get_unit(partition)}, but holds none.")
        new_files.digest = digest.hexdigest()
        yield new_files
    finally:
        remove_unused_files(table, new_files)


def _write_file(table: Table, path: str, first_group: pa.Table, groups: Iterator[pa.Table], digest: Any) -> int:
    """Write `first_group`, and as many of `groups` as fit into the file; return the number of rows."""
    rows, group = 0, first_group
    with table.io.new_output(path).create(overwrite=True) as target:
        file = _HashingFile(target, digest)
        with pq.ParquetWriter(pa.PythonFile(file, mode="w"), first_group.schema, compression="zstd") as writer:
            while group is not None:
                writer.write_table(group, row_group_size=GROUP_ROWS)
                rows += group.num_rows
                group = next(groups, None) if file.size < FILE_BYTES else None
    return rows


def regroup_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of `GROUP_ROWS` rows, the last with the remainder, whatever the sizes of the batches.

    So equal rows give equal bytes.
    """
    pending_batches: list[pa.RecordBatch] = []
    pending_rows = 0
    for batch in batches:
        remainder = batch
        while pending_rows + remainder.num_rows >= GROUP_ROWS:
            missing_rows = GROUP_ROWS - pending_rows
            yield _to_table(schema, [*pending_batches, remainder.slice(0, missing_rows)])
            remainder, pending_batches, pending_rows = remainder.slice(missing_rows), [], 0
        if remainder.num_rows:
            pending_batches.append(remainder)
            pending_rows += remainder.num_rows
    if pending_rows:
        yield _to_table(schema, pending_batches)


def _to_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _cast(partition: Partition, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        rows = batch.select(schema.names).cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"partition {partition}: {error}") from None
    _check_partition(partition, rows)
    return rows


def _check_partition(partition: Partition, batch: pa.RecordBatch) -> None:
    """Refuse rows whose `date`, or for a partition by hour, whose `hour` is not that of the partition."""
    day = get_date(partition)
    other_partitions = [str(value) for value in pc.unique(batch[DATE_COLUMN]).to_pylist() if value != day]
    if isinstance(partition, Hour) and not other_partitions:
        other_partitions = [
            f"{day}T{hour:02d}" for hour in pc.unique(batch[HOUR_COLUMN]).to_pylist() if hour != partition.hour
        ]
    if other_partitions:
        unit = get_unit(partition)
        raise DataError(
            f"partition {partition} must hold rows of that {unit} only, but holds {', '.join(other_partitions[:5])}."
        )


def build_properties(partition: Partition, new_files: NewFiles) -> dict[str, str]:
    """Build the properties of the snapshot that commits the files: the partition, and the digest of the files."""
    return {PARTITION_PROPERTY: partition.isoformat(), DIGEST_PROPERTY: new_files.digest}


def write_local_files(
    folder: Path, partition: Partition, rows: pa.RecordBatchReader, table_schema: pa.Schema
) -> list[Path]:
    """Write rows to files in a folder of this machine, with the same bytes as a write to the table.

    Args:
        folder: folder to write to.
        partition: the partition.
        rows: all rows of the partition.
        table_schema: columns of the table.

    Raises:
        DataError: there are no rows, or rows of another partition; or `date` or `hour` is missing. A retry cannot help.
    """
    batches = check_first_rows(partition, rows.schema, iter(rows))
    schema = to_iceberg_schema(rows.schema, table_schema)
    with write_new_files(_Folder(folder), partition, schema, batches) as new_files:
        new_files.must_stay = True
    return [Path(path) for path in new_files.paths]


class _Folder:
    """A folder of this machine, with the attributes of a table that writing files needs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.io = folder, PyArrowFileIO()

    def location(self) -> str:
        return str(self._folder)


def commit_new_files(
    table: Table,
    new_files: NewFiles,
    row_filter: BooleanExpression | None,
    properties: Mapping[str, str],
    apply: Callable[[Transaction], None] = lambda _: None,
) -> Snapshot:
    """Commit the files to the table, in one attempt, and return the snapshot.

    Args:
        table: the version of the table that the commit is for. If it is not the current version, the commit fails.
        new_files: the files to add.
        row_filter: selects the rows to delete; None if no rows are deleted.
        properties: properties of the snapshot.
        apply: function that makes further changes in the same transaction, before the rows are replaced.

    Raises:
        CommitFailedException: another process committed first.
    """
    new_files.is_commit_begun = True
    with CachingTransaction(table) as transaction:
        # pyiceberg must not retry: it would append the rows to those that another writer committed meanwhile.
        if table.properties.get(RETRIES_PROPERTY) != "0":
            transaction.set_properties({RETRIES_PROPERTY: "0"})
        apply(transaction)
        if row_filter is not None:
            transaction.delete(row_filter, snapshot_properties=dict(properties))
        transaction.add_files(new_files.paths, snapshot_properties=dict(properties), check_duplicate_files=False)
    new_files.must_stay = True
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def remove_unused_files(table: Table, new_files: NewFiles) -> None:
    """Remove the files, unless a commit has added them to the table, or may have added them."""
    if not new_files.must_stay and not (new_files.is_commit_begun and _may_use_files(table, new_files.paths)):
        _remove_files(table, new_files.paths)


def _may_use_files(table: Table, paths: Sequence[str]) -> bool:
    """Return whether the table refers to one of the files; True if the table cannot be read.

    An error does not prove that a commit failed: the connection may break after the database has committed. If in
    doubt, keep the files, because an unused file changes nothing.
    """
    try:
        return any(task.file.file_path in paths for task in table.refresh().scan().plan_files())
    except Exception:
        return True


def _remove_files(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(Exception):  # the file may not exist, and an error here must not hide that of the block
            table.io.delete(path)


class _HashingFile:
    """A file that writes its bytes to `target`, and adds them to `digest`."""

    def __init__(self, target: Any, digest: Any) -> None:
        self._target, self._digest, self.size, self.closed = target, digest, 0, False

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._target.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Do nothing: no data is buffered here."""

    def close(self) -> None:
        self.closed = True
