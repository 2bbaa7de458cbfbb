"""The spool: new rows of a partition, in Parquet files in the table's folder that no snapshot refers to yet.

The files are written one row group at a time, so memory does not grow with the partition. Nothing reads them before the
commit. A writer that dies leaves the files behind, and nothing reads them.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table

from pipelines.errors import DataError
from pipelines.lake.commits import PARTITION

GROUP_ROWS = 128 * 1024
"""Rows of a row group."""
FILE_BYTES = 512 * 1024 * 1024
"""Size of a file after which the next file begins."""


def check_first_rows(day: dt.date, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check the first rows, before a table is created for them; return the same batches.

    Raises:
        DataError: there are no rows, or no column of days, or the first rows are of another day. A retry cannot help.
    """
    if PARTITION not in schema.names or not pa.types.is_date32(schema.field(PARTITION).type):
        raise DataError(
            f"partition {day} has no column {PARTITION} of dates. Its columns: {', '.join(schema.names[:40])}."
        )
    first_batch = next((batch for batch in batches if batch.num_rows), None)
    if first_batch is None:
        raise DataError(f"partition {day} must hold rows of that day, but holds none.")
    _check_day(day, first_batch)
    return chain([first_batch], batches)


@dataclass
class Spool:
    """The files of one partition."""

    schema: pa.Schema
    paths: list[str] = field(default_factory=list)
    rows: int = 0
    digest: str = ""
    """SHA-256 over the files: equal rows in equal order give equal bytes."""
    is_committed: bool = False
    """Whether a snapshot refers to the files; otherwise they are removed when the block ends."""


@contextmanager
def write_spool(table: Table, day: dt.date, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Spool]:
    """Write the batches to files in the table's folder; remove them when the block ends, unless they are committed.

    Args:
        table: the table of the partition.
        day: the partition; every row must be of this day.
        schema: columns of the files, to which the batches are cast.
        batches: are read once.

    Raises:
        DataError: there are rows of another day, or no rows, or a value does not fit its column. A retry cannot help.
    """
    spool, digest = Spool(schema), hashlib.sha256()
    try:
        groups = regroup_rows(schema, (_cast(day, schema, batch) for batch in batches))
        for number, first_group in enumerate(groups):
            path = f"{table.location()}/data/{PARTITION}={day}/{uuid.uuid4()}-{number:05d}.parquet"
            spool.paths.append(path)
            spool.rows += _write_file(table, path, first_group, groups, digest)
        if not spool.rows:
            raise DataError(f"partition {day} must hold rows of that day, but holds none.")
        spool.digest = digest.hexdigest()
        yield spool
    finally:
        if not spool.is_committed:
            _remove_files(table, spool.paths)


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
    """Yield the rows in tables of `GROUP_ROWS`, whatever the batches' sizes, so that equal rows give equal bytes."""
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


def _cast(day: dt.date, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        rows = batch.select(schema.names).cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"partition {day}: {error}") from None
    _check_day(day, rows)
    return rows


def _check_day(day: dt.date, batch: pa.RecordBatch) -> None:
    other_days = [str(other) for other in pc.unique(batch[PARTITION]).to_pylist() if other != day]
    if other_days:
        raise DataError(f"partition {day} must hold rows of that day only, but holds {', '.join(other_days[:5])}.")


def _remove_files(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(Exception):  # the block's own error is reported, or the file was never created
            table.io.delete(path)


class _HashingFile:
    """A file that passes the bytes on to `target`, and adds them to `digest`."""

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
