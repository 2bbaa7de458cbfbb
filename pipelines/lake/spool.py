"""The spool: new rows of a partition, as Parquet files in the table's folder that no snapshot names yet.

Written one row group at a time, so memory does not grow with the partition. Nothing reads the files before the
commit. A writer that dies leaves them behind, unread.
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
FILE_BYTES = 512 * 1024 * 1024
"""Size after which the next file begins."""


def check_first_rows(day: dt.date, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the same batches, after a check of the first rows: before a table is created for them.

    Raises:
        DataError: there is no row, or no column of days, or the first rows are of another day. A retry cannot help.
    """
    if PARTITION not in schema.names or not pa.types.is_date32(schema.field(PARTITION).type):
        raise DataError(f"partition {day} has no column {PARTITION} of days: columns {', '.join(schema.names[:40])}.")
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        raise DataError(f"partition {day} must hold rows of that day, but holds none.")
    _check_day(day, first)
    return chain([first], batches)


@dataclass
class Spool:
    """The files of one partition."""

    schema: pa.Schema
    paths: list[str] = field(default_factory=list)
    rows: int = 0
    digest: str = ""
    """SHA-256 over the files: equal rows in equal order give equal bytes."""
    is_committed: bool = False
    """Whether a snapshot names the files; otherwise they are removed when the block ends."""


@contextmanager
def write_spool(table: Table, day: dt.date, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Spool]:
    """Write the batches to files in the table's folder; remove them when the block ends, unless they are committed.

    Args:
        table: that the files are for.
        day: the partition; every row has to be of this day.
        schema: that the batches are cast to.
        batches: read once.

    Raises:
        DataError: there are rows of another day, or no row, or a value does not fit its column. A retry cannot help.
    """
    spool, digest = Spool(schema), hashlib.sha256()
    try:
        groups = _regroup(day, schema, batches)
        for number, first in enumerate(groups):
            path = f"{table.location()}/data/{PARTITION}={day}/{uuid.uuid4()}-{number:05d}.parquet"
            spool.paths.append(path)
            spool.rows += _write_file(table, path, first, groups, digest)
        if not spool.rows:
            raise DataError(f"partition {day} must hold rows of that day, but holds none.")
        spool.digest = digest.hexdigest()
        yield spool
    finally:
        if not spool.is_committed:
            _remove(table, spool.paths)


def _write_file(table: Table, path: str, first: pa.Table, groups: Iterator[pa.Table], digest: Any) -> int:
    """Write `first`, and as many of the groups as fit into a file; return the number of rows."""
    rows, group = 0, first
    with table.io.new_output(path).create(overwrite=True) as sink:
        tee = _HashingFile(sink, digest)
        with pq.ParquetWriter(pa.PythonFile(tee, mode="w"), first.schema, compression="zstd") as writer:
            while group is not None:
                writer.write_table(group, row_group_size=GROUP_ROWS)
                rows += group.num_rows
                group = next(groups, None) if tee.size < FILE_BYTES else None
    return rows


def _regroup(day: dt.date, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of `GROUP_ROWS`, whatever the batches' sizes, so that equal rows give equal bytes."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = _cast(day, schema, batch)
        while count + rest.num_rows >= GROUP_ROWS:
            missing = GROUP_ROWS - count
            yield _to_table(schema, [*waiting, rest.slice(0, missing)])
            rest, waiting, count = rest.slice(missing), [], 0
        if rest.num_rows:
            waiting.append(rest)
            count += rest.num_rows
    if count:
        yield _to_table(schema, waiting)


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
    others = [str(other) for other in pc.unique(batch[PARTITION]).to_pylist() if other != day]
    if others:
        raise DataError(f"partition {day} must hold rows of that day only, but holds {', '.join(others[:5])}.")


def _remove(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(Exception):  # another error is on its way out, or the file was never made
            table.io.delete(path)


class _HashingFile:
    """A file that hashes what is written through it."""

    def __init__(self, sink: Any, digest: Any) -> None:
        self._sink, self._digest, self.size, self.closed = sink, digest, 0, False

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._sink.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Do nothing: no data is buffered here."""

    def close(self) -> None:
        self.closed = True
