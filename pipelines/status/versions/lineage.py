"""Describe the lineage of a model's versions by the events and profiles in the lake, without a request to MLflow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.dataset import Dataset
from pipelines.registry.lifecycle import Event, Kind, State
from pipelines.registry.lifecycle.events import ORIGIN
from pipelines.settings import settings
from pipelines.status.documents.lineage import VersionLineage
from pipelines.status.documents.model import TimelineEvent
from pipelines.status.inputs import StatusInputs
from pipelines.status.texts import shorten
from pipelines.status.timeline import find_report_url
from pipelines.status.versions.usage import find_scored_days, list_serving_periods

TEXTS = ("table", "snapshot_id", "rows_train", "rows_holdout", "data_version", "dvc_lock", "git_commit", "training_job")
"""Keys of the origin, which is part of the evidence of a registration, that are also fields of `VersionLineage`."""


def list_lineages(
    inputs: StatusInputs,
    model: str,
    dataset: Dataset,
    state: State,
    events: Iterable[TimelineEvent],
    as_of_by_version: Mapping[str, dt.date],
) -> list[VersionLineage]:
    """List the lineages of versions, sorted by number.

    These are the versions that the timeline names, the champion, the challenger and the versions that endpoints serve.

    Args:
        inputs: what the documents or the metrics of all models are built from.
        model: registered model.
        dataset: its dataset.
        state: its state in the registry.
        events: events of its timeline.
        as_of_by_version: version to the as_of of its training, as far as it is known.
    """
    event_versions = {number for event in events for number in (event.version, event.from_version, event.to_version)}
    versions = sorted(
        {*event_versions, state.champion, state.challenger, *_list_served_versions(state)} - {""}, key=int
    )
    registrations = {event.version: event for event in state.events if event.kind is Kind.REGISTERED}
    scored_days, periods = find_scored_days(inputs.lake, model, dataset.predictions), list_serving_periods(state)
    return [
        VersionLineage(
            version=version,
            **_describe_origin(registrations.get(version), as_of_by_version.get(version)),
            report_url=find_report_url(model, version),
            mlflow_url=settings().build_version_url(model, version),
            scored=scored_days.get(version),
            services=periods.get(version, []),
        )
        for version in versions
    ]


def _list_served_versions(state: State) -> list[str]:
    """List the versions that endpoints serve now."""
    return [versions[-1] for versions in state.served_versions.values()]


def _describe_origin(registration: Event | None, as_of: dt.date | None) -> dict[str, Any]:
    """Return the fields of `VersionLineage` about the data, code and job of a version, from its registration.

    If the registration lacks a value, its field is empty; the field `as_of` then has the value of the argument. Without
    a registration, `registered_at` is None.
    """
    recorded_origin = registration.evidence.get(ORIGIN, {}) if registration else {}
    origin = {name: shorten(str(value)) for name, value in recorded_origin.items()}
    # The window has the form FIRST..LAST | FIRST..LAST: training days and holdout days.
    training_days, _, holdout_days = origin.get("window", "").replace("..", " to ").partition(" | ")
    table = origin.get("table", "")
    return {
        **{name: origin.get(name, "") for name in (*TEXTS, "model_digest")},
        "registered_at": registration.at if registration else None,
        "as_of": origin.get("as_of", "") or str(as_of or ""),
        "training_days": training_days,
        "holdout_days": holdout_days,
        "run": origin.get("dag_run", ""),
        "data_url": settings().build_dataset_url(table) if table else "",
    }
