"""Build the documents of a model: its line in the list, and its details."""

from __future__ import annotations

from typing import Any

from pipelines import params
from pipelines.costs.budgets import find_paying_project
from pipelines.dataset import Dataset
from pipelines.loop.events import History
from pipelines.registry.lifecycle import Kind, State
from pipelines.registry.lifecycle.events import CHECKS
from pipelines.settings import settings
from pipelines.status.documents.model import CheckResult, ModelDetails, VersionFacts
from pipelines.status.documents.models import DriftDecision, LastTraining, ModelSummary, Performance
from pipelines.status.inputs import StatusInputs
from pipelines.status.model_status import DriftState, ModelStatus, read_drift, read_status
from pipelines.status.performance import measure_weeks
from pipelines.status.texts import shorten
from pipelines.status.timeline import build_timeline, find_report_url, map_as_of
from pipelines.status.trainings import assess_next_training, find_training_age
from pipelines.status.versions.lineage import list_lineages

SUMMARY_WEEKS = 12
"""Number of weeks whose performance is in the list of models."""


def build_details(inputs: StatusInputs, model: str) -> ModelDetails:
    """Build the details of a model.

    Raises:
        SpecError: the parameters of the model are not valid. A retry cannot help.
        DataError: a table of the lake is damaged. A retry cannot help.
        ConflictError, ServiceError: the lake does not answer. A retry can help.
    """
    dataset = inputs.load_dataset(model)
    state, history = inputs.registry.read_state(model), inputs.loop.read_state(model)
    outlook = assess_next_training(inputs, model, dataset, history)
    events = build_timeline(model, state, history, inputs.now)
    return ModelDetails(
        written_at=inputs.now,
        summary=build_summary(inputs, model),
        events=events,
        drift_weeks=inputs.read_drift_history(model).list_weeks(model, inputs.find_newest_day(dataset)),
        champion=_describe_version(model, state.champion, state, history),
        challenger=_describe_version(model, state.challenger, state, history),
        lineages=list_lineages(inputs, model, dataset, state, events, map_as_of(history)),
        rollback_version=next(iter(state.rollback_targets), ""),
        guards_as_of=outlook.as_of,
        guards=outlook.guards,
        breaker_open=outlook.is_breaker_open,
        training_forecast=outlook.forecast,
        retrain_on=params.load_value(settings().project, "drift", "retrain_on", model),
        training_age=find_training_age(inputs, model, dataset, history),
        drift_reports_url=settings().build_reports_url("drift", model),
        evaluations_url=settings().build_reports_url("models", model),
    )


def build_summary(inputs: StatusInputs, model: str) -> ModelSummary:
    """Build the line of a model in the list, with all weeks of its performance.

    Raises:
        SpecError: there is no such model, or its parameters are not valid. A retry cannot help.
        DataError: a table of the lake is damaged. A retry cannot help.
        ConflictError, ServiceError: the lake does not answer. A retry can help.
    """
    dataset = inputs.load_dataset(model)
    state, history = inputs.registry.read_state(model), inputs.loop.read_state(model)
    decision = _find_last_decision(inputs, model, state.champion)
    drift = DriftState(decision.day, decision.outcome, decision.reasons) if decision else None
    status = read_status(model, dataset, inputs.lake, read_drift=lambda *_: drift)
    as_of_by_version = map_as_of(history)
    return ModelSummary(
        **_copy_fields(status),
        dataset=dataset.name,
        champion_as_of=as_of_by_version.get(state.champion),
        performance=_measure_performance(inputs, model, dataset, state, history),
        drift=decision,
        last_training=_find_last_training(history),
        project=find_paying_project(project="", model=model),
    )


def shorten_performance(summary: ModelSummary) -> ModelSummary:
    """Return the summary for the list of models: with the last `SUMMARY_WEEKS` weeks of the performance."""
    if summary.performance is None:
        return summary
    weeks = summary.performance.weeks[-SUMMARY_WEEKS:]
    return summary.model_copy(update={"performance": summary.performance.model_copy(update={"weeks": weeks})})


def _copy_fields(status: ModelStatus) -> dict[str, Any]:
    """Return the fields that a summary and the state of the model have in common, as a summary stores them."""
    names = ModelSummary.model_fields.keys() & ModelStatus.__dataclass_fields__.keys() - {"drift", "last_training"}
    fields = {name: getattr(status, name) for name in names}
    return {**fields, "reason": shorten(status.reason), "endpoints": dict(status.endpoints)}


def _find_last_decision(inputs: StatusInputs, model: str, version: str) -> DriftDecision | None:
    """Return the last drift decision about a version, even if it is not in `StatusInputs.read_drift_history`."""
    if decision := inputs.read_drift_history(model).find_last_decision(model, version):
        return decision
    drift = read_drift(inputs.lake, model, version) if version else None
    if drift is None:
        return None
    return DriftDecision(
        day=drift.day, outcome=drift.outcome, reasons=shorten(drift.reasons), version=version, report_url=""
    )


def _measure_performance(
    inputs: StatusInputs, model: str, dataset: Dataset, state: State, history: History
) -> Performance | None:
    return measure_weeks(inputs.lake, model, dataset.task, state, map_as_of(history)) if dataset.label else None


def _find_last_training(history: History) -> LastTraining | None:
    training = max(history.trainings.values(), key=lambda training: training.at, default=None)
    return LastTraining(as_of=training.as_of, outcome=training.outcome, at=training.at) if training else None


def _describe_version(model: str, version: str, state: State, history: History) -> VersionFacts | None:
    """Describe a version; None if `version` is empty."""
    if not version:
        return None
    verdicts = [event for event in state.events if event.kind is Kind.JUDGED and event.version == version]
    checks = verdicts[-1].evidence.get(CHECKS, []) if verdicts else []
    return VersionFacts(
        version=version,
        as_of=map_as_of(history).get(version),
        outcome=str(verdicts[-1].evidence.get("verdict", "")) if verdicts else "",
        reason=shorten(verdicts[-1].why) if verdicts else "",
        report_url=find_report_url(model, version),
        mlflow_url=settings().build_version_url(model, version),
        checks=[CheckResult(**{**check, "name": shorten(check["name"])}) for check in checks],
    )
