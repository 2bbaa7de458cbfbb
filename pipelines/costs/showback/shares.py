"""Sum the costs of jobs and endpoints, split by spot, on demand and endpoints, with their reserved and idle parts.

The reserved part, which commitments cover, and the idle part overlap with spot, on demand and endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.instances.catalogue import find_size

Row = Mapping[str, Any]


def sum_shares(rows: Sequence[Row]) -> dict[str, Any]:
    """Sum the costs of rows of both ledgers.

    Returns:
        `cost_usd`, and its parts `spot_usd`, `on_demand_jobs_usd` and `endpoints_usd`; `idle_usd`, the cost of the
        instances' unused part, and `known_usd`, the cost of the rows whose utilization is known; `reserved_usd`, the
        cost that commitments cover, None if no row has a value in this column; the shares `spot`, `on_demand` and
        `endpoints` of the cost, `idle` of `known_usd`, and `reserved` of the cost of the rows whose `reserved_usd` is
        known. A share is None if the cost of which it is a share is 0.
    """
    costs = {"spot_usd": 0.0, "on_demand_jobs_usd": 0.0, "endpoints_usd": 0.0, "idle_usd": 0.0, "known_usd": 0.0}
    for row in rows:
        costs[_find_part(row)] += row["cost_usd"]
        use = find_use(row)
        if use is not None:
            costs["idle_usd"] += (1 - use) * row["cost_usd"]
            costs["known_usd"] += row["cost_usd"]
    total = sum(row["cost_usd"] for row in rows)
    rows_with_reserved = [row for row in rows if row.get("reserved_usd") is not None]
    reserved_usd = sum(row["reserved_usd"] for row in rows_with_reserved) if rows_with_reserved else None
    return {
        "cost_usd": total,
        **costs,
        "reserved_usd": reserved_usd,
        "spot": _divide(costs["spot_usd"], total),
        "on_demand": _divide(costs["on_demand_jobs_usd"], total),
        "endpoints": _divide(costs["endpoints_usd"], total),
        "reserved": _divide(reserved_usd or 0.0, sum(row["cost_usd"] for row in rows_with_reserved)),
        "idle": _divide(costs["idle_usd"], costs["known_usd"]),
    }


def find_use(row: Row) -> float | None:
    """Return the used share of the instances of a row, 0 to 1; None if it is not known.

    The share is the mean utilization of the GPUs, or of the vCPUs if the instances have no GPUs. For an endpoint with
    instances, it is 0 if no request came. For a serverless endpoint, it is 1, because idle time costs nothing.
    """
    if "begin" in row:  # only rows of endpoints have this column
        if row["memory_mb"]:
            return 1.0
        if row.get("requests") == 0:
            return 0.0
    size = find_size(row["instance_type"] or "")
    if size is None:
        return None
    percent, count = (row["gpu_mean"], size.gpus) if size.gpus else (row["cpu_mean"], size.vcpus)
    if percent is None or not count:
        return None
    return float(min(percent / 100 / count, 1.0))


def _find_part(row: Row) -> str:
    if "begin" in row:  # only rows of endpoints have this column
        return "endpoints_usd"
    return "spot_usd" if row["spot"] else "on_demand_jobs_usd"


def _divide(part: float, total: float) -> float | None:
    return part / total if total else None
