"""Write the lake's table `drift_results`: one row for each finding of a window, with the decision on the window."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipelines.lake import DATE_COLUMN, Lake
from pipelines.monitoring.drift import Decision, Policy, WindowResult, alarms

TABLE = "drift_results"
_TEXT, _NUMBER = pa.string(), pa.float64()
SCHEMA = pa.schema(
    [
        (DATE_COLUMN, pa.date32()),  # last day of the window
        *((name, _TEXT) for name in ("model_name", "model_version", "name", "measure")),
        *((name, _NUMBER) for name in ("effect", "p_value", "bound", "weight")),
        ("drifted", pa.bool_()),  # whether the column is part of the alarm
        *((name, _TEXT) for name in ("note", "outcome", "reasons")),
        ("rows", pa.int64()),
    ]
)
KEY = ("model_name", "model_version", "name", "measure")
"""Columns that identify a row of a day."""


def write_findings(
    day: dt.date, model_name: str, version: str, decision: Decision, window: WindowResult, policy: Policy
) -> bool:
    """Write the findings about one window of a model version, replacing its earlier findings. Idempotent.

    Args:
        day: last day of the window.
        model_name: registered model.
        version: number of the version.
        decision: the decision on the window.
        window: the findings.
        policy: the bounds of the effects.

    Returns:
        Whether the table changed.

    Raises:
        ConflictError: other writers kept changing the table. A retry can help.
    """
    model_columns = {"model_name": model_name, "model_version": version}
    common_columns = {
        **model_columns,
        DATE_COLUMN: day,
        "outcome": decision.outcome,
        "reasons": "\n".join(decision.reasons),
    }
    rows = [{**common_columns, **row, "rows": window.rows} for row in _build_finding_rows(decision, window, policy)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Lake.open().write_partition(TABLE, day, table, (DATE_COLUMN, *KEY), part_values=model_columns).changed


def _build_finding_rows(decision: Decision, window: WindowResult, policy: Policy) -> Iterator[dict[str, Any]]:
    for finding in window.findings:
        yield {
            "name": finding.column,
            "measure": finding.measure,
            "effect": finding.effect,
            "p_value": finding.p_value,
            "bound": alarms.get_bound(finding, policy),
            "weight": finding.weight,
            "drifted": finding.column in decision.drifted_columns,
            "note": finding.note,
        }
