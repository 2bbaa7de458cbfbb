"""Name the columns of the ledger that have the use of a job's instances."""

from __future__ import annotations

from typing import get_args

from pipelines.costs.charges import Job, Resource, ResourceUse

RESOURCES: tuple[Resource, ...] = get_args(Resource)
"""Resources whose use is in the ledger."""
COLUMNS = tuple(f"{resource}_{name}" for resource in RESOURCES for name in ResourceUse.model_fields)
"""The columns: cpu_peak, cpu_mean, memory_peak ... percent; null if it is not known."""
DATA_WAIT_COLUMN = "data_wait_share"
"""The column with the share of its time, from 0 to 1, that a training waited for data; null if it is not known."""


def flatten_usage(job: Job) -> dict[str, float]:
    """Return the values of the columns that are known of a job."""
    return {
        f"{resource}_{name}": value for resource, use in job.usage.items() for name, value in use.model_dump().items()
    }
