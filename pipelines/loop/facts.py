"""Collect the facts that the guards need: the training's window and data, failed validations, and the budget."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines import params
from pipelines.costs.budgets import PlannedTraining, check_budget
from pipelines.dataset import Dataset
from pipelines.features.dependencies import find_source_columns
from pipelines.features.pinned_window import WindowSpec
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.loop.events import History
from pipelines.loop.guards import find_last_training
from pipelines.loop.journal import Journal
from pipelines.loop.policy import Policy
from pipelines.serving.metering.running import list_running_fleets
from pipelines.settings import settings
from pipelines.system.log import log
from pipelines.validation.results_table import ResultsTable
from pipelines.window import DAY, Days, Window

WORST_CASE_KEYS = {"region", "instance_types", "max_run_s"}
"""Keys of section budget of params.yaml that the worst-case cost is computed from."""


def load_training_window(model: str, dataset: str, as_of: dt.date) -> WindowSpec:
    """Load the settings of a training's window: section `snapshot` of the model's parameters, with this as_of.

    Raises:
        SpecError: the section is not valid, or names another dataset. A retry cannot help.
    """
    sections = params.load(settings().project, model)
    fields = {
        **sections.get("snapshot", {}),
        "dataset": params.choose_dataset(sections, model, dataset),
        "as_of": as_of,
    }
    return WindowSpec.parse(fields, f"the parameters of {model}, section 'snapshot'")


def digest_training_data(lake: Lake, dataset: Dataset, window: Window) -> str:
    """Compute a SHA-256 that changes when the data of a training change: its window, published days or rows."""
    versions = lake.find_partition_versions(
        dataset.table, lake.count_rows_of_partitions(dataset.table, [*window.all_days])
    )
    content = {str(day): version for day, version in versions.items()} | {"window": str(window)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def find_validation_failures(
    lake: Lake, dataset: Dataset, days: Days, drifted_columns: Collection[str]
) -> Iterator[str]:
    """Yield a text for each failure that must prevent a training, from the last validations of some days.

    Such a failure is a validated day that is not published, a failed critical expectation, or a failed expectation of
    any severity on a drifted column or a column from which a drifted feature is built. A failed expectation of severity
    `info` on several columns does not count.

    Args:
        lake: the lake.
        dataset: the validated dataset.
        days: days whose validations are examined (see `select_quality_days`); without days, there is no failure.
        drifted_columns: columns of the drift findings: features, the score, the label or the performance.
    """
    if not days:
        return
    rows = ResultsTable(lake).read_newest(dataset.table, days.first, days.last)
    published_counts = lake.count_rows_of_partitions(dataset.table, [*days])
    suspect_columns = _find_suspect_columns(lake, dataset, drifted_columns) if published_counts else set()
    for day in dict.fromkeys(row[DATE_COLUMN] for row in rows if row[DATE_COLUMN] not in published_counts):
        yield f"{day} was not published"
    for row in rows:
        if not row["success"] and (row["severity"] == "critical" or suspect_columns & _list_columns(row)):
            yield _describe_failure(row)


def load_policy(model: str) -> Policy:
    """Load the policy of a model's guards from its parameters.

    Raises:
        SpecError: the parameters of the model are not valid. A retry cannot help.
    """
    return Policy.model_validate(params.load_section(settings().project, "guard", model).get("policy", {}))


def load_planned_training(model: str) -> PlannedTraining | None:
    """Load what the worst-case cost of one training is computed from, and its budgets, from the model's parameters.

    Returns:
        The training; None if section `budget` of params.yaml lacks a key of `WORST_CASE_KEYS`.

    Raises:
        SpecError: the parameters of the model are not valid. A retry cannot help.
    """
    section = {"model": model, **params.load_section(settings().project, "budget", model)}
    if not section.keys() >= WORST_CASE_KEYS:
        return None
    return PlannedTraining.parse(section, f"the parameters of {model}, section 'budget'")


def explain_budget_refusal(model: str, lake: Lake | None = None) -> str:
    """Explain why the budget does not allow a training at its worst-case cost; return an empty text if it does.

    The text is also empty if section `budget` of params.yaml lacks a key of `WORST_CASE_KEYS`. The budget of the
    current month by wall-clock time is used, because a replay of past days costs money today.

    Args:
        model: registered model.
        lake: lake with the ledgers; None: the configured lake.

    Raises:
        SpecError: the parameters of the model are not valid, or name an instance type that is retired. A retry cannot
            help.
        DataError: an instance type of the budget or of a running endpoint has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    training = load_planned_training(model)
    if training is None:
        return ""
    verdict = check_budget(training, list_running_fleets(lake), lake)
    return "" if verdict.allowed else verdict.reason


@dataclass(frozen=True)
class AgeLimit:
    """When the next training is due by age, even without drift."""

    last_as_of: dt.date
    """As_of of the last training."""
    max_age_days: int
    """Days after `last_as_of` at which the next training is due."""

    @property
    def due_on(self) -> dt.date:
        """First as_of at which the next training is due."""
        return self.last_as_of + dt.timedelta(self.max_age_days)


def explain_age(model: str, dataset: Dataset, trained_as_of: dt.date, as_of: dt.date) -> str:
    """Explain that the last training is too old, by the policy in params.yaml; return an empty text if it is not.

    Args:
        model: registered model.
        dataset: dataset of the model.
        trained_as_of: as_of of the version that scores. It is used if the loop has recorded no later training.
        as_of: as_of of the training that would be next. Only trainings with an earlier as_of are considered, so a
            repeated call gives the same answer.
    """
    limit = find_age_limit(model, dataset, trained_as_of, as_of)
    if limit is None or as_of < limit.due_on:
        return ""
    age_days = (as_of - limit.last_as_of).days
    return (
        f"the last training was as of {limit.last_as_of}, {age_days} days before {as_of}; "
        f"the next is due after {limit.max_age_days} days"
    )


def find_age_limit(
    model: str,
    dataset: Dataset,
    trained_as_of: dt.date,
    as_of: dt.date,
    history: History | None = None,
    lake: Lake | None = None,
) -> AgeLimit | None:
    """Find out when the next training is due by age, by the policy in params.yaml; None without `max_age_days`.

    A training is due after `max_age_days`. If the last training used fewer days of data, the next is due after that
    number of days, because there are then as many new days as the model has seen.

    Args:
        model: registered model.
        dataset: dataset of the model.
        trained_as_of: as_of of the version that scores. It is used if the loop has recorded no later training.
        as_of: only trainings with an earlier as_of are considered.
        history: history of the model's trainings; None: the one in the journal.
        lake: lake with the published days; None: the configured lake.
    """
    policy = load_policy(model)
    if not policy.max_age_days:
        return None
    last_training = find_last_training(history or Journal.open().read_state(model), as_of)
    last_as_of = max(trained_as_of, last_training.as_of) if last_training else trained_as_of
    training_days = count_training_days(model, dataset, last_as_of, lake)
    return AgeLimit(last_as_of, min(policy.max_age_days, training_days))


def count_training_days(model: str, dataset: Dataset, as_of: dt.date, lake: Lake | None = None) -> int:
    """Count the training days of the window of this as_of, without days before the first published day; at least 1."""
    window = load_training_window(model, dataset.name, as_of).compute_window()
    first_published_day = min((lake or Lake.open()).count_rows_by_day(dataset.table), default=window.train.first)
    return max(len(window.clip_to(first_published_day).train), 1)


def select_quality_days(model: str, as_of: dt.date, policy: Policy) -> Days:
    """Select the days before `as_of` whose validations the guard `data_quality` examines.

    These are at least the days of the drift step's window; if `quality_days` is 0, there are none.

    Raises:
        SpecError: the parameters of the model are not valid. A retry cannot help.
    """
    window_days = int(params.load_value(settings().project, "drift", "window_days", model))
    day_count = window_days if policy.quality_days is None else policy.quality_days
    if 0 < day_count < window_days:
        log.warning("quality_days is %d, but drift compares %d days: all of these are examined", day_count, window_days)
        day_count = window_days
    return Days(as_of - day_count * DAY, as_of - DAY)


def _find_suspect_columns(lake: Lake, dataset: Dataset, drifted_columns: Collection[str]) -> set[str]:
    """Find the drifted columns, and the columns from which drifted features are built."""
    has_features = bool(set(drifted_columns) & set(dataset.features))
    sources = find_source_columns(dataset, lake.read_schema(dataset.table)) if has_features else {}
    return set(drifted_columns).union(*(sources.get(name, ()) for name in drifted_columns))


def _list_columns(row: Mapping[str, Any]) -> set[str]:
    """List the columns of a failed expectation.

    If an expectation of severity `info` is on several columns, none of them is listed, since its failure does not say
    which column is wrong.
    """
    text = row["column"] or ""
    return {text, *(text.split(", ") if row["severity"] != "info" else ())}


def _describe_failure(row: Mapping[str, Any]) -> str:
    column = f" of {row['column']}" if row["column"] else ""
    return f"{row[DATE_COLUMN]}: {row['severity']} {row['expectation']}{column}: {row['error'] or row['observed']}"
