"""Compare the windows and policies of a model with the size of its data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pipelines.evaluation.gates.policy import Policy as GatePolicy
from pipelines.monitoring.drift import Policy as DriftPolicy

DRIFT_WINDOW_DAYS, HOLDOUT_DAYS, MIN_TRAIN_DAYS, LABEL_DELAY_DAYS = 7, 28, 14, 1
"""Defaults of the steps `drift` and `snapshot`."""


def find_problems(sections: Mapping[str, Mapping[str, Any]], rows_by_day: Mapping[dt.date, int]) -> list[str]:
    """Return a line for each parameter that does not fit the size of the data.

    Args:
        sections: parameters of the model.
        rows_by_day: number of rows of each published day, of which there must be one at least.
    """
    snapshot, drift = sections.get("snapshot", {}), sections.get("drift", {})
    gate_policy = GatePolicy.model_validate(sections.get("gate", {}).get("policy", {}))
    drift_policy = DriftPolicy.model_validate(drift.get("policy", {}))
    days = (max(rows_by_day) - min(rows_by_day)).days + 1
    rows_per_day = sum(rows_by_day.values()) / days
    share_of_days_with_rows = len(rows_by_day) / days
    holdout_days = int(snapshot.get("holdout_days", HOLDOUT_DAYS))
    window_days = int(drift.get("window_days", DRIFT_WINDOW_DAYS))
    delay_days = int(snapshot.get("label_delay_days", LABEL_DELAY_DAYS))
    needed_days = int(snapshot.get("min_train_days", MIN_TRAIN_DAYS)) + delay_days + holdout_days
    # Maps the text of each possible problem to the required number and to the available number. The problem exists if
    # the former is larger.
    numbers = {
        "gate: min_rows {0:,}, and a holdout has about {1:,} rows": (
            gate_policy.min_rows,
            int(rows_per_day * holdout_days),
        ),
        "drift: min_rows {0:,}, and a window has about {1:,} rows": (
            drift_policy.min_rows,
            int(rows_per_day * window_days),
        ),
        "snapshot: the shortest window has {0} days, and the published days span {1}": (needed_days, days),
    }
    if gate_policy.group_by:
        numbers["gate: min_groups {0}, and a holdout has about {1} days with rows"] = (
            gate_policy.min_groups,
            int(holdout_days * share_of_days_with_rows),
        )
    return [text.format(required, available) for text, (required, available) in numbers.items() if required > available]
