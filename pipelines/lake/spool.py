"""A partition on its way into a table: Parquet files at the table's place that no snapshot names yet.

Written a row group at a time, so memory does not grow with the partition. Nothing reads them before the commit; a
writer that dies leaves them behind, unread.
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
"""Where a file ends and the next begins."""


def check_first_rows(day: dt.date, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, the first rows looked at: before a table is made for them.

    Raises:
        DataError: there is no row, or no column of days, or the first rows are of another day.
    """
    if PARTITION not in schema.names or not pa.types.is_date32(schema.field(PARTITION).type):
        raise DataError(f"partition {day} has no column {PARTITION} of days: columns {', '.join(schema.names[:40])}.")
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        raise DataError(f"partition {day} must hold rows of that day, but holds none.")
    others = [str(one) for one in pc.unique(first[PARTITION]).to_pylist() if one != day]
    if others:
        raise DataError(f"partition {day} must hold rows of that day only, but holds {', '.join(others[:5])}.")
    return chain([first], batches)


@dataclass
class Spool:
    """Files of one partition."""

    schema: pa.Schema
    paths: list[str] = field(default_factory=list)
    rows: int = 0
    digest: str = ""
    """SHA-256 over the files: equal rows in equal order give equal bytes."""
    is_committed: bool = False
    """Whether a snapshot names the files; else they are removed."""


@contextmanager
def write_spool(table: Table, day: dt.date, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[Spool]:
    """The batches, as files at the table's place, for as long as the block lasts; longer where they were `kept`.

    Args:
        table: whose files they may become.
        day: the partition; every row has to be of it.
        schema: what the batches are cast to.
        batches: read once.

    Raises:
        DataError: rows of another day, no row at all, or a value that does not fit its column.
    """
    spool, seen = Spool(schema), hashlib.sha256()
    try:
        groups = _regroup(day, schema, batches)
        for number, first in enumerate(groups):
            path = f"{table.location()}/data/{PARTITION}={day}/{uuid.uuid4()}-{number:05d}.parquet"
            spool.paths.append(path)
            spool.rows += _write_file(table, path, first, groups, seen)
        if not spool.rows:
            raise DataError(f"partition {day} must hold rows of that day, but holds none.")
        spool.digest = seen.hexdigest()
        yield spool
    finally:
        if not spool.is_committed:
            _remove(table, spool.paths)


def _write_file(table: Table, path: str, first: pa.Table, groups: Iterator[pa.Table], seen: Any) -> int:
    """Writes `first` and as many of the groups as a file takes; returns its number of rows."""
    rows, group = 0, first
    with table.io.new_output(path).create(overwrite=True) as sink:
        tee = _Tee(sink, seen)
        with pq.ParquetWriter(pa.PythonFile(tee, mode="w"), first.schema, compression="zstd") as writer:
            while group is not None:
                writer.write_table(group, row_group_size=GROUP_ROWS)
                rows += group.num_rows
                group = next(groups, None) if tee.written < FILE_BYTES else None
    return rows


def _regroup(day: dt.date, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of `GROUP_ROWS`, whatever the batches' sizes, so that equal rows are equal bytes."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        fitted = _cast(day, schema, batch)
        while count + fitted.num_rows >= GROUP_ROWS:
            here = GROUP_ROWS - count
            yield _to_table(schema, [*waiting, fitted.slice(0, here)])
            fitted, waiting, count = fitted.slice(here), [], 0
        if fitted.num_rows:
            waiting.append(fitted)
            count += fitted.num_rows
    if count:
        yield _to_table(schema, waiting)


def _to_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _cast(day: dt.date, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        fitted = batch.select(schema.names).cast(schema)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"partition {day}: {error}") from None
    others = pc.unique(fitted[PARTITION]).to_pylist()
    if fitted.num_rows and others != [day]:
        wrong = [str(one) for one in others if one != day][:5]
        raise DataError(f"partition {day} must hold rows of that day only, but holds {', '.join(wrong)}.")
    return fitted


def _remove(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(Exception):  # on its way out with an error of its own, or the file was never there
            table.io.delete(path)


class _Tee:
    """A file that hashes what it passes on."""

    def __init__(self, sink: Any, seen: Any) -> None:
        self._sink, self._seen, self.written, self.closed = sink, seen, 0, False

    def write(self, data: Any) -> int:
        self._seen.update(data)
        self._sink.write(data)
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        self.closed = True
