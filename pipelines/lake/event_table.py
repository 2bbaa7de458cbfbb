"""Tables of events of models: events are added by compare and swap, and never changed."""

from __future__ import annotations

import datetime as dt
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from pipelines.costs.ledger import month_of
from pipelines.lake import PARTITION, PARTITION_PROPERTY, Lake, forget_snapshots, retry_conflicts

TEXT = pa.string()
COMMON_COLUMNS = [
    (PARTITION, pa.date32()),  # first day of the month of `at`
    ("id", TEXT),
    ("model", TEXT),
    ("place", pa.int64()),  # among the model's events, from 0: clocks of two machines differ
    ("kind", TEXT),
]
"""The first columns of every such table."""
Row = dict[str, Any]


class Event(Protocol):
    """What every event has."""

    @property
    def id(self) -> str:
        """Digest of what makes it this event: the same event has the same id, whoever tells it again."""

    @property
    def at(self) -> dt.datetime:
        """When it was told."""


E = TypeVar("E", bound=Event)
S = TypeVar("S")


class EventTable(Lake, Generic[E, S]):
    """One such table. Subclasses say what an event is as a row, and what is so after some events."""

    table: ClassVar[str]
    columns: ClassVar[pa.Schema]

    @classmethod
    def open(cls) -> Self:
        """The table in the configured lake; made where there is none.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        made = cls(Lake.open().catalog)
        for attempt in retry_conflicts():
            with attempt:
                made._ensure(cls.table, cls.columns)
        return made

    @abstractmethod
    def row(self, event: E) -> Row:
        """The event's columns, but for the partition and the place."""

    @abstractmethod
    def fold(self, rows: Iterable[Row]) -> S:
        """What is so after the events of these rows, oldest first; without partition and place."""

    def state(self, model: str) -> S:
        """What is so by the events, now."""
        return self.fold(_read_rows(self._table(self.table), model))

    def change(self, model: str, decide: Callable[[S], E | None]) -> E | None:
        """The event that `decide` made of the model's state is in the table; None where that asks for none.

        Compare and swap: where another event came first, by whomever, `decide` is asked again about the state after it.
        Idempotent: an event that is there already is not added.

        Raises:
            ConflictError: other writers kept winning. A retry can help.
        """
        for attempt in retry_conflicts():
            with attempt:
                table = self._table(self.table)
                event = self._append(table, model, decide)
        if event:
            forget_snapshots(table)
        return event

    def _append(self, table: Table, model: str, decide: Callable[[S], E | None]) -> E | None:
        """One try, on the table as it was loaded."""
        known = _read_rows(table, model)
        event = decide(self.fold(known))
        if event is None or event.id in {row["id"] for row in known}:
            return None
        month = month_of(event.at)
        row = {**self.row(event), PARTITION: month, "place": len(known)}
        only = EqualTo(PARTITION, month.isoformat())
        # The month's rows and this one in one file: with a file an event, a look at a thousand of them takes seconds.
        had = table.scan(row_filter=only).to_arrow().cast(self.columns)
        rows = pa.concat_tables([had, pa.Table.from_pylist([row], schema=self.columns)])
        with warnings.catch_warnings():
            # pyiceberg 0.12 warns where there is nothing to overwrite: a new month.
            warnings.filterwarnings("ignore", "Delete operation did not match", UserWarning)
            # Refused (CommitFailedException) unless the table is at the snapshot that was read: pyiceberg's
            # AssertRefSnapshotId of the table as loaded. The lake's tables have pyiceberg's own retries off.
            table.overwrite(rows, overwrite_filter=only, snapshot_properties={PARTITION_PROPERTY: month.isoformat()})
        return event


def _read_rows(table: Table, model: str) -> list[Row]:
    found: list[Row] = table.scan(row_filter=EqualTo("model", model)).to_arrow().sort_by("place").to_pylist()
    return [{name: value for name, value in row.items() if name not in (PARTITION, "place")} for row in found]
