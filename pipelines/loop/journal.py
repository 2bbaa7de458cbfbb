"""Define the table `loop_events`: trainings that were started, held back or ended, and resets of the breaker."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from pipelines.lake.event_table import COMMON_COLUMNS, TEXT, EventTable, Row
from pipelines.loop.events import Event, History, Kind, build_history


class Journal(EventTable[Event, History]):
    """The table of the loop's events, of all models."""

    table = "loop_events"
    columns = pa.schema(
        [
            *COMMON_COLUMNS,
            ("at", pa.timestamp("us", tz="UTC")),
            ("who", TEXT),
            ("run", TEXT),
            ("as_of", pa.date32()),
            *((name, TEXT) for name in ("trigger", "reason", "drifted_columns", "guard", "why")),
            ("until", pa.date32()),
            ("alert", pa.bool_()),
            *((name, TEXT) for name in ("data", "outcome", "version")),
        ]
    )

    def to_row(self, event: Event) -> Row:
        """Return the values of the event's columns; those of `drifted_columns` are JSON."""
        return {
            **vars(event),
            "kind": str(event.kind),
            "drifted_columns": json.dumps(event.drifted_columns, ensure_ascii=False),
        }

    def build_state(self, rows: Iterable[Row]) -> History:
        """Build the history of the events in these rows."""
        return build_history(
            Event(**{**row, "kind": Kind(row["kind"]), "drifted_columns": (*json.loads(row["drifted_columns"]),)})
            for row in rows
        )
