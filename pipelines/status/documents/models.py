"""Define the list of models: file models.json."""

from __future__ import annotations

import datetime as dt
from typing import Literal, get_args

from pydantic import Field

from pipelines.status.documents.json_object import Document, JsonObject

Health = Literal["ok", "drift", "failed", "held back", "no champion"]
"""The most serious finding about a model; `ok` if there is none."""
HEALTHS: tuple[Health, ...] = get_args(Health)
"""All values of `Health`."""


class WeekPerformance(JsonObject):
    """The performance of a model on the rows of a week whose labels are known."""

    week: dt.date
    """First day of the week, a Monday."""
    value: float
    """The metric."""
    low: float | None
    """Lower end of its 95 % interval; null if the week has too few days."""
    high: float | None
    """Upper end of its 95 % interval; null if the week has too few days."""
    rows: int
    """Number of rows with a known label."""
    versions: list[str]
    """Versions that scored the rows."""


class Performance(JsonObject):
    """The weekly performance of a model."""

    metric: str
    """Name of the metric, such as auc."""
    higher_is_better: bool
    """Whether a larger value is better."""
    weeks: list[WeekPerformance]
    """Weeks with labels, oldest first."""


class DriftDecision(JsonObject):
    """A decision about drift of the champion."""

    day: dt.date
    """Last day of its window."""
    outcome: str
    """`drift`, `none` or `undecided`."""
    reasons: str
    """Why, with a semicolon between the reasons."""
    version: str
    """Version that it is about."""
    report_url: str
    """Address of its report; empty if there is none."""


class LastTraining(JsonObject):
    """The last training that was started."""

    as_of: dt.date
    """The training saw only rows whose label was known before this day."""
    outcome: str
    """`passed`, `not_passed` or `failed`; empty while it runs."""
    at: dt.datetime
    """When it was started, UTC."""


class ModelSummary(JsonObject):
    """A line of the table of models."""

    model: str
    """Registered model."""
    dataset: str
    """Dataset of the model."""
    health: Health
    """The most serious finding about the model."""
    reason: str
    """Details of the finding, in a sentence; empty for `ok`."""
    champion: str
    """Version that is champion; empty if there is none."""
    champion_since: dt.datetime | None
    """When it became champion; null if there is none."""
    champion_as_of: dt.date | None
    """As-of date of the champion's training; null if it is not known."""
    challenger: str
    """Newest version after the champion that passed the gate or was approved; empty if there is none."""
    performance: Performance | None
    """The last weeks with labels; null if there are none."""
    drift: DriftDecision | None
    """The last decision; null if there is none about the champion."""
    newest_partition: str
    """Newest published partition of the dataset; empty if there is none."""
    published_at: dt.datetime | None
    """When the published data last changed; null if nothing was ever published."""
    last_training: LastTraining | None
    """The last training; null if there was none."""
    endpoints: dict[str, str]
    """Maps each endpoint to the version that it serves."""
    month_usd: float
    """Cost of the model's ended jobs and metered endpoints in the current month, USD."""
    project: str
    """Project that pays; empty if there is none."""
    project_month_usd: float
    """Cost of all models of the project in the current month, USD."""
    budget_usd: float | None
    """Budget of the month for the project, USD; null if there is none."""


class ModelList(Document):
    """File models.json: a summary of each model."""

    models: list[ModelSummary]
    """The models, sorted by name."""
    unreadable_models: dict[str, str]
    """Models whose state could not be read, each with the reason."""
    unreadable_documents: dict[str, str] = Field(default_factory=dict)
    """Other documents that could not be written, such as costs.json or data/flights.json, each with the reason. Their
    old files are still there."""
    docs_url: str
    """Address of the data docs."""
    mlflow_url: str
    """Address of MLflow; empty if it has no web pages."""
