"""Define the protocols of a source: `Source` is read by partitions, `ChangingSource` incrementally by a cursor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.window import Days


@dataclass(frozen=True)
class Description:
    """The description of a source: what it reads, and where. It is stored with the data, so it contains no secret."""

    kind: str
    """Kind of the source in one word: files, database, API."""
    location: str
    """Address that the source reads from."""
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Maps each column name to its type, for the columns that are known before reading."""


class Source(Protocol):
    """A source whose rows are grouped by day, hour or month; the step `ingest` reads it.

    A source may also have `find_day_range()`. It returns the first and the last day of the source as `Days`, or None
    if it would have to read much data to find them. The error about a day without rows names these two days. The
    source may also have a method `read_once(partitions)`, a context manager; the function `read_once` below calls it.
    """

    def describe(self) -> Description:
        """Return what the source reads and where, without any secret."""

    def list_partitions(self, days: Days) -> Sequence[Any]:
        """List the partitions whose `date` is within `days`, and for which the source has data, in ascending order.

        Returns:
            The partitions, in the dataset's unit: `datetime.date`, or `Hour` or `Month` of `pipelines.partitions`.
        """

    def read(self, partition: Any) -> pa.RecordBatchReader:
        """Read the rows of one partition: a day, an `Hour` or a `Month`, depending on the dataset.

        Returns:
            The rows in batches, with a date32 column `date`: the day, or the first day of a month. For an hour, the
            rows also have an int32 column `hour`. No batches if the partition has no rows.
        """


class ChangingSource(Protocol):
    """A source that is read incrementally by a cursor; the step `sync` reads it."""

    cursor: str
    """Column whose value grows with each change of a row: a timestamp or a number."""

    def describe(self) -> Description:
        """Return what the source reads and where, without any secret."""

    def read_changes(self, since: str | None) -> pa.RecordBatchReader:
        """Read the rows whose cursor is greater than `since`, ordered by cursor; all rows if `since` is None."""


@contextmanager
def read_once(source: Source, partitions: Collection[Any]) -> Iterator[Source]:
    """Yield a source for reading several partitions.

    If `source` has a method `read_once`, the yielded source reads the data only once for all partitions. If not,
    `source` itself is yielded.

    Args:
        source: the source to read.
        partitions: the partitions that will be read.

    Raises:
        DataError: the data are missing, or do not have the columns, types or days that the source needs. A retry
            cannot help.
        ServiceError: the source does not answer. A retry can help.
    """
    open_source = getattr(source, "read_once", None)
    if open_source is None:
        yield source
        return
    with open_source(partitions) as opened_source:
        yield opened_source
