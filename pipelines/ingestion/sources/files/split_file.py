"""Split the rows of a file that holds many partitions, so that the file is read once for all of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from pipelines.lake import DATE_COLUMN
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, get_date
from pipelines.source import Description, Source
from pipelines.system.temporary_folders import make_temporary_folder
from pipelines.window import Days, Unit

GROUP_BYTES = 32 * 1024 * 1024
"""Size of the rows that are split at a time, bytes. Of these rows, those of one partition become one piece of the
temporary file."""
HOURS = 24
"""Hours of a day."""


@dataclass(frozen=True)
class SplitFile:
    """A source of some partitions, whose rows were copied to a temporary file in pieces.

    The rows of a partition have the order of the original source.
    """

    source: Source
    """The original source."""
    partition: Unit
    """Unit of the partitions."""
    file: Any
    """The temporary file, an Arrow IPC file that is open for reading."""
    pieces: Mapping[int, Sequence[int]]
    """Maps each partition number to the numbers of its pieces in the file."""
    days: Days | None
    """First and last day of all rows of the source; None if it has no rows."""

    def describe(self) -> Description:
        """Return what the source reads."""
        return self.source.describe()

    def list_partitions(self, days: Days) -> Sequence[Any]:
        """List all partitions of the source within `days`, even those that were not copied."""
        return self.source.list_partitions(days)

    def find_day_range(self) -> Days | None:
        """Return the first and the last day of all rows of the source; None if it has no rows."""
        return self.days

    def read(self, partition: Partition) -> pa.RecordBatchReader:
        """Read the rows of one of the partitions that were copied; no rows for any other partition."""
        numbers = self.pieces.get(_get_partition_number(partition), ())
        return pa.RecordBatchReader.from_batches(self.file.schema, (self.file.get_batch(number) for number in numbers))


@contextmanager
def split_file(
    source: Source, unit: Unit, batches: Iterable[pa.RecordBatch], partitions: Collection[Partition]
) -> Iterator[SplitFile]:
    """Copy the rows of some partitions to a temporary file, which is removed when the block ends.

    Memory does not grow with the file. The disk must hold the copied rows, compressed.

    Args:
        source: the source of the rows.
        unit: unit of the partitions.
        batches: all rows of the source, of one schema, with `date` and, for hours, `hour`; at least one batch.
        partitions: partitions to copy.

    Yields:
        The source of these partitions.
    """
    wanted_numbers = np.array(sorted(map(_get_partition_number, partitions)))
    pieces, days = dict[int, list[int]](), list[dt.date]()
    with make_temporary_folder() as folder:
        path, count = folder / "rows.arrow", 0
        with pa.OSFile(str(path), "wb") as sink:
            writer = None
            for group in _group_batches(batches):
                writer = writer or ipc.new_file(sink, group.schema, options=ipc.IpcWriteOptions(compression="lz4"))
                if group.num_rows:
                    days += pc.min_max(group[DATE_COLUMN]).as_py().values()
                for number, piece in _split(group, wanted_numbers):
                    writer.write_batch(piece)
                    pieces.setdefault(number, []).append(count)
                    count += 1
            assert writer
            writer.close()
        with pa.memory_map(str(path)) as mapped_file:
            yield SplitFile(
                source, unit, ipc.open_file(mapped_file), pieces, Days(min(days), max(days)) if days else None
            )


def _group_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield larger batches, of about `GROUP_BYTES`."""
    group, size = list[pa.RecordBatch](), 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.concat_batches(group)
            group, size = [], 0
    if group:
        yield pa.concat_batches(group)


def _split(batch: pa.RecordBatch, wanted_numbers: np.ndarray[Any, Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each wanted partition in the batch: its number, and its rows in their order."""
    numbers = _compute_partition_numbers(batch)
    rows = np.flatnonzero(np.isin(numbers, wanted_numbers))
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    if not len(rows):
        return
    batch, numbers = batch.take(pa.array(rows)), numbers[rows]
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1), len(numbers)]
    for start, end in pairwise(starts):
        yield int(numbers[start]), batch.slice(start, end - start)


def _compute_partition_numbers(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Return, for each row, the number that `_get_partition_number` gives its partition."""
    numbers = np.asarray(batch[DATE_COLUMN].cast(pa.int32()), np.int64) * HOURS
    return numbers + np.asarray(batch[HOUR_COLUMN], np.int64) if HOUR_COLUMN in batch.schema.names else numbers


def _get_partition_number(partition: Partition) -> int:
    """Return a number that identifies the partition: the hours from 1970-01-01T00 to the beginning of the partition."""
    hour = partition.hour if isinstance(partition, Hour) else 0
    return (get_date(partition) - dt.date(1970, 1, 1)).days * HOURS + hour
