"""What every source can do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from pipelines.window import Days


@dataclass(frozen=True)
class Description:
    """What a source is, without any secret."""

    kind: str
    """In a word: files, database, API."""
    location: str
    """Where it reads."""
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Column to type, where known beforehand."""


class Source(Protocol):
    """Rows by the day."""

    def describe(self) -> Description:
        """What it is, without any secret."""

    def partitions(self, days: Days) -> list[dt.date]:
        """Those of the days that the source has, sorted."""

    def read(self, partition: dt.date) -> pa.RecordBatchReader:
        """The rows of one day, with the date32 column `date`; no batches where the day is empty."""


class ChangingSource(Protocol):
    """Rows without partitions, each with a moment or a number that only grows."""

    cursor: str
    """The column that grows."""

    def describe(self) -> Description:
        """What it is, without any secret."""

    def changes(self, since: str | None) -> pa.RecordBatchReader:
        """The rows whose cursor is beyond `since`, all where it is None, in the order of the cursor."""
