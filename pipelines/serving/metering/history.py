"""Read from the models' histories which configuration each endpoint of Leeway had, and from when to when."""

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
    """When the deployment had ended: an event has no earlier moment."""
    end: dt.datetime | None
    """When another configuration served, or the endpoint was deleted; None if no event says so."""
    replaced: bool
    """Whether it ended because another configuration served."""
    count: int
    """Number of instances of the deployment."""
    load: float = 0.0
    """Number of requests that a serverless deployment is expected to work on at a time, on average."""


def read_deployments(lake: Lake | None = None) -> list[Event]:
    """Read the events about endpoints, of all models, oldest first; from the configured lake, or another `lake`."""
    return Journal.open(lake).read_deployments()


def list_deployed_fleets(events: Iterable[Event]) -> list[DeployedFleet]:
    """List the fleets of all deployments, oldest first.

    Events of earlier versions of Leeway, which do not name the instances or the memory, have none.
    """
    events_by_endpoint: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.evidence.get("region") and event.kind is not Kind.DEPLOYMENT_FAILED:
            events_by_endpoint.setdefault(get_endpoint(event), []).append(event)
    fleets = [fleet for endpoint_events in events_by_endpoint.values() for fleet in _follow(endpoint_events)]
    return sorted(fleets, key=lambda item: item.begin)


def _follow(events: Iterable[Event]) -> Iterator[DeployedFleet]:
    """Yield the fleets of one endpoint from its events `deployed` and `undeployed`."""
    present: DeployedFleet | None = None
    for event in events:
        if present and event.kind is Kind.DEPLOYED and event.evidence["config"] == present.fleet.config:
            continue
        if present:
            yield replace(present, end=event.at, replaced=event.kind is Kind.DEPLOYED)
        present = None
        has_machine = event.evidence.get("instance_type") or event.evidence.get("serverless_memory_mb")
        if event.kind is Kind.DEPLOYED and has_machine:
            count, load = int(event.evidence["instance_count"]), float(event.evidence.get("serverless_load", 0))
            present = DeployedFleet(_make_fleet(event), event.at, None, False, count, load)
    if present:
        yield present


def find_end(events: Iterable[Event], fleet: Fleet, after: dt.datetime) -> Event | None:
    """Return the first event after a moment that says that a fleet ended; None if there is none."""
    for event in events:
        if event.at <= after or get_endpoint(event) != (fleet.region, fleet.endpoint):
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


def find_project(project: str, model: str) -> str:
    """Return `project`; if it is empty, the project of the model's parameters; empty if the model has none here.

    Raises:
        SpecError: the parameters are not valid. A retry cannot help.
    """
    names = params.list_model_names(settings().project)
    is_foreign = names and model not in names  # such an endpoint must not stop the metering of all others
    return project if project or is_foreign else find_paying_project("", model)


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
        project=find_project(str(event.evidence.get("project", "")), event.model),
    )
