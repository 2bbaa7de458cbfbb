"""Read and write the table `lifecycle_events`, which holds the events of the versions of all models."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.expressions import In

from pipelines.lake.event_table import COMMON_COLUMNS, TEXT, EventTable, Row
from pipelines.registry.lifecycle.events import DEPLOYMENT_KINDS, Event, Kind, State, compute_state


class Journal(EventTable[Event, State]):
    """The events of all models, in the lake."""

    table = "lifecycle_events"
    columns = pa.schema(
        [
            *COMMON_COLUMNS,
            *((name, TEXT) for name in ("version", "from_version", "to_version")),
            ("at", pa.timestamp("us", tz="UTC")),
            *((name, TEXT) for name in ("who", "why", "evidence")),
        ]
    )

    def to_row(self, event: Event) -> Row:
        """Return the row of an event, with its evidence as JSON."""
        evidence = json.dumps(event.evidence, sort_keys=True, ensure_ascii=False)
        return {**vars(event), "kind": str(event.kind), "evidence": evidence}

    def build_state(self, rows: Iterable[Row]) -> State:
        """Return the state of a model after the events of these rows; `rows` has the oldest first."""
        return compute_state(map(_to_event, rows))

    def read_deployments(self) -> list[Event]:
        """Return the events of the kinds `DEPLOYMENT_KINDS` of all models, oldest first."""
        table = self._months.read(In("kind", [str(kind) for kind in DEPLOYMENT_KINDS]))
        rows = table.sort_by([("at", "ascending"), ("place", "ascending")]).select(list(Event.__dataclass_fields__))
        return [_to_event(row) for row in rows.to_pylist()]


def _to_event(row: Row) -> Event:
    return Event(**{**row, "kind": Kind(row["kind"]), "evidence": json.loads(row["evidence"])})
