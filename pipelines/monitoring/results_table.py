"""The lake's table `drift_results`: every finding of every window that was decided on, with the decision."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipelines.lake import PARTITION, Lake
from pipelines.monitoring.drift import Decision, Policy, WindowResult, alarms

TABLE = "drift_results"
_TEXT, _NUMBER = pa.string(), pa.float64()
SCHEMA = pa.schema(
    [
        (PARTITION, pa.date32()),  # the window's last day
        *((name, _TEXT) for name in ("model_name", "model_version", "name", "measure")),
        *((name, _NUMBER) for name in ("effect", "p_value", "bound", "weight")),
        ("drifted", pa.bool_()),  # whether the column is among those that alarm
        *((name, _TEXT) for name in ("note", "outcome", "reasons")),
        ("rows", pa.int64()),
    ]
)
KEY = ("model_name", "model_version", "name", "measure")


def keep(day: dt.date, model_name: str, version: str, decision: Decision, window: WindowResult, policy: Policy) -> bool:
    """The table has the window's findings, in the place of what was. Returns whether it changed.

    Raises:
        ConflictError: other writers kept winning. A retry can help.
    """
    of = {"model_name": model_name, "model_version": version}
    about = {**of, PARTITION: day, "outcome": decision.outcome, "reasons": "\n".join(decision.reasons)}
    rows = [{**about, **row, "rows": window.rows} for row in _rows(decision, window, policy)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Lake.open().write_partition(TABLE, day, table, (PARTITION, *KEY), part=of).changed


def _rows(decision: Decision, window: WindowResult, policy: Policy) -> Iterator[dict[str, Any]]:
    for one in window.findings:
        yield {
            "name": one.column,
            "measure": one.measure,
            "effect": one.effect,
            "p_value": one.p_value,
            "bound": alarms.bound(one, policy),
            "weight": one.weight,
            "drifted": one.column in decision.worst,
            "note": one.note,
        }
