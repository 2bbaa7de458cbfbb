"""Write into the lake what endpoints cost since they were last metered: instance hours, serverless seconds, USD.

The rows also have what the instances used: CPU, memory, disk and GPU. No hour is charged twice, however often and from
however many processes this step runs.
"""

from __future__ import annotations

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class MeterEndpointsSpec(Spec):
    """No fields: the step meters all endpoints of the AWS region that have the tag leeway:endpoint or leeway:model."""


class MeterEndpointsResult(Result):
    """The rows that were added to the table `endpoint_costs`."""

    rows: int
    """Rows that were added."""
    endpoints: list[str]
    """Endpoints that have a new row, sorted by name."""
    instance_h: float
    """Instance hours of the new rows."""
    busy_s: float
    """Seconds in which serverless variants worked on requests, in the new rows."""
    cost_usd: float
    """Cost of the new rows, USD."""
    saved_usd: float
    """Saving by scaling to zero, USD: what one instance would have cost in the hours in which none ran."""


def run(spec: MeterEndpointsSpec) -> MeterEndpointsResult:
    """Meter the endpoints until now.

    Raises:
        SpecError: no AWS region is configured. A retry cannot help.
        DataError: some endpoints have no known price; the others were metered. A retry cannot help.
        ServiceError: AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    import datetime as dt

    from pipelines.costs.charges import DIGITS, format_usd
    from pipelines.serving.metering.meter import meter_endpoints

    rows = meter_endpoints(dt.datetime.now(dt.UTC))
    names = ("instance_h", "busy_s", "cost_usd", "saved_usd")
    sums = {name: round(sum(row[name] for row in rows), DIGITS) for name in names}
    endpoints = sorted({row["endpoint"] for row in rows})
    log.info(
        "%d endpoint(s), %.3f instance hours, %.1f serverless seconds: %s, %s saved by scaling to zero",
        *(len(endpoints), sums["instance_h"], sums["busy_s"], format_usd(sums["cost_usd"])),
        format_usd(sums["saved_usd"]),
    )
    return MeterEndpointsResult(rows=len(rows), endpoints=endpoints, **sums)
