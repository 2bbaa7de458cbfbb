"""Read from the table `lifecycle_events` which configuration each endpoint of Leeway had, and when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipelines import params
from pipelines.costs.budgets import find_paying_project
from pipelines.costs.endpoints.fleets import Fleet
from pipelines.lake import Lake
from pipelines.registry.lifecycle import Event, Journal, Kind
from pipelines.serving.endpoint_resources import VARIANT
from pipelines.settings import settings


@dataclass(frozen=True)
class DeployedFleet:
    """The instances of one deployment that succeeded."""

    fleet: Fleet
    begin: dt.datetime
    """When the deployment was complete: the events do not record when its instances started."""
    end: dt.datetime | None
    """When the endpoint got another configuration, or was deleted; None if there is no such event."""
    is_replaced: bool
    """Whether the fleet ended because another configuration replaced it."""
    instance_count: int
    """Number of instances of the deployment."""
    mean_concurrency: float = 0.0
    """Number of requests that a serverless deployment is expected to work on at a time, on average."""


def read_deployments(lake: Lake | None = None) -> list[Event]:
    """Read the events about the endpoints of all models from `lake`, by default the configured lake; oldest first."""
    return Journal.open(lake).read_deployments()


def list_deployed_fleets(events: Iterable[Event]) -> list[DeployedFleet]:
    """List the fleets of all deployments, oldest first.

    Events of earlier versions of Leeway are left out, because they name neither the instances nor the memory.
    """
    events_by_endpoint: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.evidence.get("region") and event.kind is not Kind.DEPLOYMENT_FAILED:
            events_by_endpoint.setdefault(get_endpoint(event), []).append(event)
    fleets = [fleet for endpoint_events in events_by_endpoint.values() for fleet in _build_fleets(endpoint_events)]
    return sorted(fleets, key=lambda item: item.begin)


def _build_fleets(events: Iterable[Event]) -> Iterator[DeployedFleet]:
    """Build the fleets of one endpoint from its events `deployed` and `undeployed`, oldest first."""
    current_fleet: DeployedFleet | None = None
    for event in events:
        if current_fleet and event.kind is Kind.DEPLOYED and event.evidence["config"] == current_fleet.fleet.config:
            continue  # the same configuration was deployed again, so its fleet still runs
        if current_fleet:
            yield replace(current_fleet, end=event.at, is_replaced=event.kind is Kind.DEPLOYED)
        current_fleet = None
        has_machine = event.evidence.get("instance_type") or event.evidence.get("serverless_memory_mb")
        if event.kind is Kind.DEPLOYED and has_machine:
            instance_count, mean_concurrency = (
                int(event.evidence["instance_count"]),
                float(event.evidence.get("serverless_load", 0)),
            )
            current_fleet = DeployedFleet(
                _make_fleet(event),
                begin=event.at,
                end=None,
                is_replaced=False,
                instance_count=instance_count,
                mean_concurrency=mean_concurrency,
            )
    if current_fleet:
        yield current_fleet


def find_end(events: Iterable[Event], fleet: Fleet, begin: dt.datetime) -> Event | None:
    """Return the first event after `begin` that says that a fleet ended; None if there is none."""
    for event in events:
        if event.at <= begin or get_endpoint(event) != (fleet.region, fleet.endpoint):
            continue
        config = event.evidence.get("config")
        has_failed = event.kind is Kind.DEPLOYMENT_FAILED and config == fleet.config
        is_replaced = event.kind is Kind.DEPLOYED and config != fleet.config
        if has_failed or is_replaced or event.kind is Kind.UNDEPLOYED:
            return event
    return None


def get_endpoint(event: Event) -> tuple[str, str]:
    """Return the region and the name of the endpoint that an event is about."""
    return str(event.evidence.get("region", "")), str(event.evidence.get("endpoint", ""))


def find_endpoint_project(project: str, model: str) -> str:
    """Return the project that pays for an endpoint: `project` or, if this is empty, the one in the model's parameters.

    Return "" if `project` is empty, and the project folder of this process has models, but not this one.

    Args:
        project: the project in the event or the tag of the endpoint; empty if there is none.
        model: registered model that the endpoint serves.

    Raises:
        SpecError: the parameters are not valid. A retry cannot help.
    """
    names = params.list_model_names(settings().project)
    # An endpoint may serve a model of another project's code. This must not stop the metering of all other endpoints.
    is_unknown = names and model not in names
    return project if project or is_unknown else find_paying_project("", model)


def _make_fleet(event: Event) -> Fleet:
    region, endpoint = get_endpoint(event)
    return Fleet(
        region=region,
        endpoint=endpoint,
        config=str(event.evidence["config"]),
        variant=VARIANT,
        instance_type=str(event.evidence["instance_type"]),
        memory_mb=int(event.evidence.get("serverless_memory_mb", 0)),
        model=event.model,
        project=find_endpoint_project(str(event.evidence.get("project", "")), event.model),
    )
