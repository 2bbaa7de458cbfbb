"""Record in the events of a model which version an endpoint serves, and which deployments failed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any

from pipelines.registry.lifecycle.events import DEPLOYMENT_KINDS, SHADOW_KINDS, Event, Kind, State
from pipelines.registry.lifecycle.journal import Journal
from pipelines.settings import settings
from pipelines.window import Days


def record_deployment(
    kind: Kind, model: str, version: str, endpoint: str, why: str, evidence: Mapping[str, Any]
) -> Event | None:
    """Add an event about an endpoint of the model. Idempotent: add nothing if the endpoint's last event is the same.

    Args:
        kind: one of `DEPLOYMENT_KINDS` or `SHADOW_KINDS`.
        model: registered model.
        version: version that was deployed, that could not be deployed, that was undeployed, or that was the shadow.
        endpoint: name of the endpoint.
        why: the reason, in words.
        evidence: name of the configuration, and other facts.

    Returns:
        The event; None if it was recorded already.

    Raises:
        ConflictError: other writers kept adding events. A retry can help.
    """

    def decide(state: State) -> Event | None:
        event = Event.create(
            kind,
            model,
            version,
            why=f"endpoint {endpoint}: {why}" if why else f"endpoint {endpoint}",
            evidence={"endpoint": endpoint, **evidence},
            key=str(len(state.events)),
        )
        last_event = find_last_event(state, endpoint, SHADOW_KINDS if kind in SHADOW_KINDS else DEPLOYMENT_KINDS)
        return None if last_event and _is_same(last_event, event) else event

    return Journal.open().append_event(model, decide)


def find_last_event(state: State, endpoint: str, kinds: Collection[Kind] = DEPLOYMENT_KINDS) -> Event | None:
    """Return the last event of these kinds about an endpoint; None if there is none."""
    events = [event for event in state.events if event.kind in kinds]
    return next((event for event in reversed(events) if event.evidence.get("endpoint") == endpoint), None)


def has_deployment_since(state: State, endpoint: str, begin: dt.datetime) -> bool:
    """Return whether a deployment to an endpoint was recorded at or after a moment."""
    deployments = [event for event in state.events if event.kind is Kind.DEPLOYED and event.at >= begin]
    return any(event.evidence.get("endpoint") == endpoint for event in deployments)


def find_deployed_version(state: State, endpoint: str, day: dt.date) -> str:
    """Return the version that was deployed last to an endpoint up to the end of a day, UTC; empty if there is none."""
    deployments = [event for event in state.events if event.kind is Kind.DEPLOYED and event.at.date() <= day]
    versions = [event.version for event in deployments if event.evidence.get("endpoint") == endpoint]
    return versions[-1] if versions else ""


def find_released_versions(state: State, endpoint: str, days: Days) -> list[str]:
    """Return the versions that may have answered an endpoint's requests on some days, UTC.

    These are the version that was deployed last before the days, and each version that was deployed, or whose
    deployment failed, on one of the days: a canary answers requests before it is rolled back.

    Returns:
        The numbers of the versions, each once, in the order of their first deployment.
    """
    events = [event for event in state.events if event.kind in (Kind.DEPLOYED, Kind.DEPLOYMENT_FAILED)]
    releases = [event for event in events if event.evidence.get("endpoint") == endpoint]
    served_version = find_deployed_version(state, endpoint, days.first - dt.timedelta(days=1))
    released_versions = [event.version for event in releases if days.first <= event.at.date() <= days.last]
    return list(dict.fromkeys([*([served_version] if served_version else []), *released_versions]))


def find_deployment_of_run(state: State, endpoint: str) -> Event | None:
    """Return the endpoint's last event if it is a deployment by this DAG run; else, and outside of Airflow, None."""
    event = find_last_event(state, endpoint)
    run_id = settings().run
    is_of_run = event is not None and event.kind is Kind.DEPLOYED and event.evidence.get("run") == run_id
    return event if run_id and is_of_run else None


def is_rollback(state: State, endpoint: str, version: str) -> bool:
    """Return whether deploying a version is a rollback: the endpoint served it just before its present version."""
    return state.served_versions.get(endpoint, ())[-2:-1] == (version,)


def _is_same(last_event: Event, event: Event) -> bool:
    """Return whether two events have the same kind, version, endpoint and configuration.

    Events of a failed deployment or of a shadow are the same only if they are also of the same DAG run.
    """
    compares_run = event.kind in (Kind.DEPLOYMENT_FAILED, *SHADOW_KINDS)
    keys = ("endpoint", "config", *(["run"] if compares_run else []))
    has_same_subject = (last_event.kind, last_event.version) == (event.kind, event.version)
    return has_same_subject and all(last_event.evidence.get(key) == event.evidence.get(key) for key in keys)
