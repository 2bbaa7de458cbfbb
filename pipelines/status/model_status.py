"""Collect the state of a model from the lake: champion, health, drift, data, trainings, endpoints and cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.expressions import And, EqualTo

from pipelines import params
from pipelines.costs.budgets import find_paying_project
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.ledger import Ledger, get_current_month
from pipelines.costs.spending import read_spending
from pipelines.dataset import Dataset
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.lake.catalog import find_table
from pipelines.loop import events as loop_events
from pipelines.loop.journal import Journal as LoopJournal
from pipelines.monitoring import results_table
from pipelines.registry.lifecycle import Journal, Kind, State
from pipelines.settings import settings
from pipelines.status.documents.models import Health


@dataclass(frozen=True)
class DriftState:
    """The last drift decision about a version; in the state of a model, about the champion."""

    day: dt.date
    """Last day of its window."""
    outcome: str
    """`drift`, `none` or `undecided`."""
    reasons: str
    """Why, with a semicolon between the reasons."""


@dataclass(frozen=True)
class ModelStatus:
    """The state of a model."""

    model: str
    """Registered model."""
    health: Health
    """The most serious finding, in a word."""
    reason: str
    """Details of the finding, in a sentence; empty for `ok`."""
    champion: str
    """Version that is champion; empty if there is none."""
    champion_since: dt.datetime | None
    """When it became champion; None if there is none."""
    challenger: str
    """Newest version after the champion that passed the gate or was approved; empty if there is none."""
    drift: DriftState | None
    """Last drift decision about the champion; None if there is none."""
    newest_partition: str
    """Newest published partition of the model's dataset; empty if there is none."""
    published_at: dt.datetime | None
    """When the published data of the dataset last changed, UTC; None if nothing was ever published."""
    last_training: str
    """as_of and outcome of the last training, or `running` in place of the outcome; empty if there was none."""
    last_training_at: dt.datetime | None
    """When the last training was started, UTC; None if there was none."""
    endpoints: Mapping[str, str]
    """Maps each endpoint that exists to the version that it serves."""
    month_usd: float
    """Cost of the model's ended jobs and metered endpoints in the current month, USD."""
    project_month_usd: float
    """Cost of the ended jobs and metered endpoints of the model's project in the current month, USD."""
    budget_usd: float | None
    """Budget of the month for the model's project, USD; None if there is none."""


def read_drift(lake: Lake, model: str, version: str) -> DriftState | None:
    """Read the last drift decision about a version; None if there is none."""
    row_filter = And(EqualTo("model_name", model), EqualTo("model_version", version))
    rows = lake.read_rows(results_table.TABLE, row_filter)
    if rows is None or not rows.num_rows:
        return None
    last = rows.sort_by(DATE_COLUMN).select([DATE_COLUMN, "outcome", "reasons"]).slice(rows.num_rows - 1).to_pylist()[0]
    return DriftState(last[DATE_COLUMN], last["outcome"], last["reasons"].replace("\n", "; "))


def read_status(
    model: str,
    dataset: Dataset,
    lake: Lake | None = None,
    read_drift: Callable[[Lake, str, str], DriftState | None] = read_drift,
) -> ModelStatus:
    """Read the state of a model.

    Args:
        model: registered model.
        dataset: its dataset.
        lake: lake to read; None: the configured one. For several models, a `CachedLake` reads each table once.
        read_drift: reads the last drift decision about a version of a model.

    Raises:
        SpecError: there is no such model, or its parameters are not valid. A retry cannot help.
        ConflictError: the lake's catalog stayed locked. A retry can help.
    """
    lake = lake or Lake.open()
    state, history = Journal.open(lake).read_state(model), LoopJournal.open(lake).read_state(model)
    drift = read_drift(lake, model, state.champion)
    health, reason = _judge_health(state, history, drift)
    last_training = max(history.trainings.values(), key=lambda training: training.at, default=None)
    return ModelStatus(
        model=model,
        health=health,
        reason=reason,
        champion=state.champion,
        champion_since=state.last_change.at if state.champion and state.last_change else None,
        challenger=state.challenger,
        drift=drift,
        newest_partition=find_newest_partition(lake, dataset),
        published_at=find_publication_time(lake, dataset),
        last_training=f"{last_training.as_of} {last_training.outcome or 'running'}" if last_training else "",
        last_training_at=last_training.at if last_training else None,
        endpoints={endpoint: versions[-1] for endpoint, versions in sorted(state.served_versions.items())},
        month_usd=_sum_model_usd(lake, model),
        project_month_usd=_sum_project_usd(lake, model),
        budget_usd=params.load_section(settings().project, "budget", model).get("month_usd"),
    )


def _judge_health(state: State, history: loop_events.History, drift: DriftState | None) -> tuple[Health, str]:
    """Return the most serious finding about a model, and its details in a sentence, which is empty for `ok`."""
    if not state.champion:
        verdicts = [event for event in state.events if event.kind is Kind.JUDGED]
        last_verdict = f"; the last verdict, on version {verdicts[-1].version}: {verdicts[-1].why}" if verdicts else ""
        return "no champion", f"no version is champion{last_verdict}"
    deployments = [event for event in state.events if event.kind in (Kind.DEPLOYED, Kind.DEPLOYMENT_FAILED)]
    if deployments and deployments[-1].kind is Kind.DEPLOYMENT_FAILED:
        return "failed", f"version {deployments[-1].version} was not deployed: {deployments[-1].why}"
    last = history.events[-1] if history.events else None
    if last and last.kind is loop_events.Kind.ENDED and last.outcome == "failed":
        return "failed", f"the training {last.run} failed"
    if last and last.kind is loop_events.Kind.HELD_BACK and last.alert:
        return "held back", f"the guard {last.guard} holds trainings back: {last.why}"
    if drift and drift.outcome == "drift":
        return "drift", f"in the window up to {drift.day}: {drift.reasons}"
    return "ok", ""


def find_newest_partition(lake: Lake, dataset: Dataset) -> str:
    """Return the newest published partition of a dataset; empty if there is none."""
    partitions = lake.count_rows_by_partition(dataset.table, dataset.partition)
    return str(max(partitions)) if partitions else ""


def find_publication_time(lake: Lake, dataset: Dataset) -> dt.datetime | None:
    """Return when the published data of a dataset last changed, UTC; None if nothing was ever published."""
    table = find_table(lake.catalog, dataset.table)
    snapshot = table.current_snapshot() if table else None
    return dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1_000, dt.UTC) if snapshot else None


def _sum_project_usd(lake: Lake, model: str) -> float:
    project = find_paying_project(project="", model=model)
    return read_spending(project, get_current_month(), running_fleets=(), lake=lake).spent_usd


def _sum_model_usd(lake: Lake, model: str) -> float:
    month = get_current_month()
    rows = [*Ledger.open(lake).read_rows(month), *EndpointLedger.open(lake).read_rows(month)]
    return float(sum(row["cost_usd"] for row in rows if row["model"] == model))
