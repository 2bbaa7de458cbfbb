"""Put a model of the lake into a state: events of the registry and of the loop, and decisions about drift."""

import datetime as dt
from typing import Any

import pyarrow as pa

from pipelines.lake import Lake
from pipelines.loop import events as loop_events
from pipelines.loop.journal import Journal as LoopJournal
from pipelines.monitoring import results_table
from pipelines.registry.lifecycle import Event, Journal, Kind

MONDAY = dt.date(2013, 1, 7)


def add_event(kind: Kind, version: str, model: str = "flights", **fields: Any) -> None:
    """Add an event of the registry."""
    event = Event.create(kind, model, version, key=f"{dt.datetime.now()}", **fields)
    Journal.open().append_event(model, lambda _: event)


def add_loop_event(kind: loop_events.Kind, run: str, model: str = "flights", **fields: Any) -> None:
    """Add an event of the loop."""
    event = loop_events.Event.create(kind, model, run, key=f"{dt.datetime.now()}", **fields)
    LoopJournal.open().append_event(model, lambda _: event)


def write_drift(day: dt.date, outcome: str, effects: dict[str, float], version: str = "2") -> None:
    """Write a decision about drift of a version, with the effect of each column; the bound is 0.1."""
    common = {
        "date": day,
        "model_name": "flights",
        "model_version": version,
        "outcome": outcome,
        "reasons": "it\nmoved",
    }
    rows = [
        {**common, "name": name, "measure": "psi", "effect": effect, "bound": 0.1, "drifted": effect > 0.1, "rows": 9}
        for name, effect in effects.items()
    ]
    part_values = {"model_name": "flights", "model_version": version}
    table = pa.Table.from_pylist(rows, schema=results_table.SCHEMA)
    Lake.open().write_partition(results_table.TABLE, day, table, ("date", "name"), part_values=part_values)
