"""The protocols of a dataset's source: `Source` is read by the day, `ChangingSource` incrementally by a cursor."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.window import Days


@dataclass(frozen=True)
class Description:
    """What a source reads and where, without any secret: it is stored with the data."""

    kind: str
    """Kind of the source in one word: files, database, API."""
    location: str
    """Address that the source reads from."""
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Column name to type, for the columns that are known before reading."""


class Source(Protocol):
    """A source whose rows are grouped by day; the step `ingest` reads it.

    A source may also have `find_day_range()`. It returns the first and the last day of the source as `Days`, or None
    where it would have to read much data to find them. The error about a day without rows names these two days.
    """

    def describe(self) -> Description:
        """Return what the source reads and where, without any secret."""

    def list_partitions(self, days: Days) -> list[dt.date]:
        """List the days within `days` for which the source has data, in ascending order."""

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """Read the rows of one day.

        Returns:
            The rows in batches, with a date32 column `date`. No batches where the day has no rows.
        """


class ChangingSource(Protocol):
    """A source that is read incrementally by a cursor; the step `sync` reads it."""

    cursor: str
    """Column whose value grows with each change of a row: a timestamp or a number."""

    def describe(self) -> Description:
        """Return what the source reads and where, without any secret."""

    def read_changes(self, since: str | None) -> pa.RecordBatchReader:
        """Read the rows whose cursor is greater than `since`, ordered by cursor; all rows where `since` is None."""
