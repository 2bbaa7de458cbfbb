"""List the endpoints that run, without a call to AWS: from the ledger of endpoints and `lifecycle_events`."""

from __future__ import annotations

from pipelines.costs.endpoints.fleets import compute_serverless_usd_h
from pipelines.costs.endpoints.ledger import EndpointLedger, find_last_rows
from pipelines.costs.endpoints.running import RunningFleet, list_metered_fleets
from pipelines.costs.prices import find_price, find_serverless_price
from pipelines.lake import Lake
from pipelines.serving.metering.history import DeployedFleet, find_end, list_deployed_fleets, read_deployments


def list_running_fleets(lake: Lake | None = None) -> list[RunningFleet]:
    """List the fleets that run as far as the lake knows, of all projects and regions. Makes no call to AWS.

    These are the fleets that ran at their last metering, and the fleets that Leeway deployed after it. Fleets that
    Leeway replaced or deleted after it are left out.

    Args:
        lake: the lake; None: the configured one.

    Raises:
        DataError: the instance type of a deployment has no known price. A retry cannot help.
    """
    rows, events = EndpointLedger.open(lake).read_rows(), read_deployments(lake)
    last_rows = find_last_rows(rows)
    metered_fleets = [item for item in list_metered_fleets(rows) if find_end(events, item.fleet, item.since) is None]
    deployed_fleets = [
        RunningFleet(item.fleet, item.begin, _find_usd_h(item))
        for item in list_deployed_fleets(events)
        if item.end is None and (item.fleet.key not in last_rows or last_rows[item.fleet.key]["end"] < item.begin)
    ]
    return [*metered_fleets, *deployed_fleets]


def _find_usd_h(item: DeployedFleet) -> float:
    """Return the cost of an hour, USD: of all instances, or of a serverless variant with its expected concurrency."""
    fleet = item.fleet
    if fleet.memory_mb:
        return compute_serverless_usd_h(
            find_serverless_price(fleet.region).usd_h, fleet.memory_mb, item.mean_concurrency
        )
    return item.instance_count * find_price(fleet.instance_type, fleet.region, "Hosting").usd_h
