"""Describe the utilization of a job's instances, for Leeway's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.costs.usage.columns import RESOURCES
from pipelines.instances.catalogue import find_size
from pipelines.status.documents.costs import JobUse, Use


def describe_use(instance_type: str, usage: Mapping[str, Mapping[str, float]]) -> JobUse:
    """Describe the utilization of a job's instances.

    Args:
        instance_type: the job's instance type.
        usage: `peak` and `mean` of each resource, percent. A resource whose utilization is not known is left out.
    """
    size = find_size(instance_type)
    uses = {name: Use(**usage[name]) if name in usage else None for name in RESOURCES}
    return JobUse(cores=size.vcpus if size else None, **uses)


def describe_use_of_row(row: Mapping[str, Any]) -> JobUse:
    """Describe the utilization of a job's instances by its row of the ledger."""
    usage: dict[str, Mapping[str, float]] = {
        name: {"mean": row[f"{name}_mean"], "peak": row[f"{name}_peak"]}
        for name in RESOURCES
        if row[f"{name}_peak"] is not None and row[f"{name}_mean"] is not None
    }
    return describe_use(row["instance_type"] or "", usage)
