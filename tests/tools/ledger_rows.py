"""Make rows of the cost ledger for the tests of what is read from them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pipelines.costs.usage.columns import COLUMNS, DATA_WAIT_COLUMN

NOW = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
"""The day after the newest of the `make_jobs`."""
FIRST_DAY = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)


def make_row(number: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a completed training of flights on demand, on ml.m5.2xlarge, for an hour."""
    name = fields.get("name", f"job-{number}")
    row = {
        "name": name,
        "arn": f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}",
        **{"region": "us-east-1", "model": "flights", "status": "Completed"},
        **{"instance_type": "ml.m5.2xlarge", "instance_count": 1, "spot": False},
        **{"created": FIRST_DAY + dt.timedelta(days=number), "training_s": 3_600, "billable_s": 3_600},
        **{"price_usd_h": 0.461, "interruptions": 0, "first_capacity_s": None, "saving": 0.0},
        **{"cpu_mean": None, "memory_peak": None, "gpu_mean": None, "gpu_memory_peak": None},
        **fields,
    }
    hours = (row["training_s"] or 0) / 3600 * (row["instance_count"] or 1)
    row.setdefault("on_demand_usd", hours * row["price_usd_h"])
    row.setdefault("cost_usd", row["on_demand_usd"] * (1 - row["saving"]))
    return row


def make_jobs(*changes: Mapping[str, Any], count: int = 5, **fields: Any) -> list[dict[str, Any]]:
    """Return trainings of one task of model m, a job a day up to the day before `NOW`, oldest first.

    Args:
        changes: fields of the newest rows, the newest first.
        count: number of rows.
        fields: fields of all rows.
    """
    changes_by_number = dict(zip(range(count - 1, -1, -1), changes, strict=False))
    task = {"model": "m", "dag_id": "m_train", "task_id": "train", **dict.fromkeys((*COLUMNS, DATA_WAIT_COLUMN))}
    return [
        make_row(
            **{
                **task,
                "name": f"m-train-{number}",
                "created": NOW - dt.timedelta(count - number),
                **fields,
                **changes_by_number.get(number, {}),
            }
        )
        for number in range(count)
    ]
