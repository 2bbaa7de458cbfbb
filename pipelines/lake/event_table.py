"""Define the base class of append-only tables: each row is an event of a model.

The state of a model is computed from its events. If two processes append at the same time, one of them computes the
state again and decides again (compare and swap).
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa
from pyiceberg.expressions import EqualTo

from pipelines.lake.commits import DATE_COLUMN
from pipelines.lake.lake import Lake
from pipelines.lake.month_table import MonthTable, TableVersion, get_month

TEXT = pa.string()
COMMON_COLUMNS = [
    (DATE_COLUMN, pa.date32()),  # first day of the month of `at`
    ("id", TEXT),
    ("model", TEXT),
    # Position among the model's events, from 0. Events are not ordered by time, because the clocks of machines differ.
    ("place", pa.int64()),
    ("kind", TEXT),
]
"""The first columns of every table of events."""
Row = dict[str, Any]


class Event(Protocol):
    """The attributes that every event has."""

    @property
    def id(self) -> str:
        """Digest of the fields that identify the event: if an event is recorded twice, both have the same id."""

    @property
    def at(self) -> dt.datetime:
        """When the event was recorded."""


E = TypeVar("E", bound=Event)
S = TypeVar("S")


class EventTable(ABC, Generic[E, S]):
    """A table of events. Subclasses define the columns of an event, and how a state is computed from events."""

    table: ClassVar[str]
    """Name of the table."""
    columns: ClassVar[pa.Schema]
    """Columns of the table: `COMMON_COLUMNS`, and the columns that `to_row` returns."""

    def __init__(self, months: MonthTable) -> None:
        self._months = months

    @classmethod
    def open(cls, lake: Lake | None = None) -> Self:
        """Open the table of events of all models.

        Args:
            lake: lake of the table; the first append creates the table. None: the configured lake, in which the table
                is created now if it does not exist.

        Raises:
            ConflictError: the lake's catalog stayed locked. A retry can help.
        """
        if lake:
            return cls(lake.get_month_table(cls.table, cls.columns, keeps_old_snapshots=False))
        months = MonthTable(cls.table, cls.columns, keeps_old_snapshots=False)
        months.create()
        return cls(months)

    @abstractmethod
    def to_row(self, event: E) -> Row:
        """Return the values of the event's columns, without `date` and `place`."""

    @abstractmethod
    def build_state(self, rows: Iterable[Row]) -> S:
        """Return the state of a model after the events of these rows.

        Args:
            rows: all events of the model, oldest first, as `to_row` returns them.
        """

    def read_state(self, model: str) -> S:
        """Return the state of a model after all its events."""
        return self.build_state(_to_rows(self._months.read(EqualTo("model", model))))

    def list_models(self) -> list[str]:
        """List the models that have events, sorted by name."""
        return sorted(set(self._months.read(columns=("model",))["model"].to_pylist()))

    def append_event(self, model: str, decide: Callable[[S], E | None]) -> E | None:
        """Append the event that `decide` returns for the model's state; append nothing if it returns None.

        If another process appended an event first, `decide` is called again, with the new state. Idempotent: an event
        whose id is in the table is not appended again.

        Returns:
            The event that was appended; None if no event was appended.

        Raises:
            ConflictError: other writers committed first in every attempt. A retry can help.
        """
        return self._months.update(lambda version: self._append_to_version(version, model, decide))

    def _append_to_version(self, version: TableVersion, model: str, decide: Callable[[S], E | None]) -> E | None:
        rows = _to_rows(version.read(EqualTo("model", model)))
        event = decide(self.build_state(rows))
        if event is None or event.id in {row["id"] for row in rows}:
            return None
        month = get_month(event.at)
        row = {**self.to_row(event), DATE_COLUMN: month, "place": len(rows)}
        new_row = pa.Table.from_pylist([row], schema=self.columns)
        # All events of a month are in one file: with one file for each event, reading a thousand events takes seconds.
        version.replace_month(month, pa.concat_tables([version.read_month(month), new_row]))
        return event


def _to_rows(table: pa.Table) -> list[Row]:
    """Return the events' rows, oldest first, without `date` and `place`."""
    rows: list[Row] = table.sort_by("place").to_pylist()
    return [{name: value for name, value in row.items() if name not in (DATE_COLUMN, "place")} for row in rows]
