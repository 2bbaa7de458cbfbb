"""Define the details of a model: file models/NAME.json."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from pipelines.status.documents.json_object import Document, JsonObject
from pipelines.status.documents.lineage import VersionLineage
from pipelines.status.documents.models import DriftDecision, ModelSummary


class TimelineEvent(JsonObject):
    """An event of the registry or of the loop."""

    at: dt.datetime
    """When it was recorded, UTC."""
    source: Literal["registry", "loop"]
    """Whether it is an event of the registry or of the loop."""
    kind: str
    """What happened, such as promoted or held_back."""
    version: str
    """Version that it is about; empty if it is about none."""
    from_version: str
    """Champion before; empty if the event does not concern the champion."""
    to_version: str
    """Champion after; empty if the event does not concern the champion."""
    as_of: dt.date | None
    """As-of date of the training or of the version; null if there is none."""
    outcome: str
    """Verdict, or result of a training; empty if there is none."""
    trigger: str
    """What requested a training; empty for other events."""
    guard: str
    """Guard that held a training back; empty for other events."""
    who: str
    """Person or process that caused it."""
    why: str
    """The reason, in words."""
    run: str
    """DAG run, DAG/RUN; empty outside of Airflow."""
    report_url: str
    """Address of the report about the version; empty if there is none."""


class DriftWeek(JsonObject):
    """The findings about drift in the windows that ended in a week."""

    week: dt.date
    """First day of the week, a Monday."""
    decisions: list[DriftDecision]
    """Decisions, oldest first."""
    effects: dict[str, float]
    """Largest effect of each column, as a multiple of the bound. An effect of 1 or more reaches the bound."""
    drifted_columns: list[str]
    """Columns that were part of an alarm."""


class CheckResult(JsonObject):
    """A value that the gate measured on the holdout, with its interval."""

    name: str
    """Name of the check, such as auc."""
    value: float | None
    """The value; null if it is not a number."""
    low: float | None
    """Lower end of its interval; null if the value is exact."""
    high: float | None
    """Upper end of its interval; null if the value is exact."""
    outcome: str
    """passed, failed, undecided; or reported, if there is no bound."""


class VersionFacts(JsonObject):
    """A version, as MLflow and its verdict describe it."""

    version: str
    """Number of the version."""
    as_of: dt.date | None
    """As-of date of its training."""
    outcome: str
    """Its last verdict; empty if there is none."""
    reason: str
    """Reason of the verdict."""
    report_url: str
    """Address of the report of its evaluation; empty if there is none."""
    mlflow_url: str
    """Its page in MLflow; empty if MLflow has no web pages."""
    checks: list[CheckResult] = Field(default_factory=list)
    """Values of its last verdict; empty if an older release of Leeway recorded the verdict."""


class GuardAnswer(JsonObject):
    """The decision of a guard if drift requested a training now."""

    guard: str
    """Name of the guard."""
    why: str
    """Why it would hold the training back; empty if it would not."""
    until: dt.date | None
    """First as-of date at which the guard would allow the training; null if waiting cannot help, or `why` is empty."""


class TrainingForecast(JsonObject):
    """The highest cost of a training."""

    worst_case_usd: float | None
    """Cost of the longest run, USD; null if a price is not known."""
    text: str
    """How the cost was computed, or why it is not known."""


class TrainingAge(JsonObject):
    """The age at which a training is repeated without drift."""

    last_as_of: dt.date
    """As-of date of the last training."""
    max_age_days: int
    """Days after which the next training is due."""
    due_on: dt.date
    """First as-of date at which the next training is due."""


class ModelDetails(Document):
    """File models/NAME.json: everything about a model."""

    summary: ModelSummary
    """The model in the list of models, with all weeks of its performance."""
    events: list[TimelineEvent]
    """Events of the last year, and always the last 200 events, oldest first."""
    drift_weeks: list[DriftWeek]
    """Weeks of the last year of its data with a drift decision, oldest first."""
    champion: VersionFacts | None
    """The champion; null if there is none."""
    challenger: VersionFacts | None
    """The challenger; null if there is none."""
    lineages: list[VersionLineage] = Field(default_factory=list)
    """Lineage of the versions that the events name, and of champion and challenger, sorted by number."""
    rollback_version: str
    """Version that a rollback would make champion; empty if there is none."""
    guards_as_of: dt.date | None
    """As-of date of the guards' answers: the day after the newest published day; null without data."""
    guards: list[GuardAnswer]
    """Answers of all guards of trainings that drift requests, the most serious first."""
    breaker_open: bool
    """Whether the breaker holds trainings back."""
    training_forecast: TrainingForecast
    """Highest cost of a training."""
    retrain_on: str = ""
    """Drift that requests a training: any, or performance; empty if the document does not say it."""
    training_age: TrainingAge | None = None
    """Age at which a training is due without drift; null if there is no such age, or no champion."""
    drift_reports_url: str
    """Page that lists the drift reports of the model."""
    evaluations_url: str
    """Page that lists the evaluations of the model."""
