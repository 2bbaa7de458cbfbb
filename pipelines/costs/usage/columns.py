"""Name the columns of the ledger with the utilization of a job's instances."""

from __future__ import annotations

from typing import get_args

from pipelines.costs.charges import Job, Resource, ResourceUse

RESOURCES: tuple[Resource, ...] = get_args(Resource)
"""Resources whose utilization is in the ledger."""
COLUMNS = tuple(f"{resource}_{name}" for resource in RESOURCES for name in ResourceUse.model_fields)
"""Columns with the utilization, percent: cpu_peak, cpu_mean, memory_peak ... Null if it is not known."""
DATA_WAIT_COLUMN = "data_wait_share"
"""Column with the share of a training's time that was spent waiting for data, from 0 to 1; null if it is not known."""


def flatten_usage(job: Job) -> dict[str, float]:
    """Return the columns with the utilization of a job's instances, as far as it is known."""
    return {
        f"{resource}_{name}": value for resource, use in job.usage.items() for name, value in use.model_dump().items()
    }
