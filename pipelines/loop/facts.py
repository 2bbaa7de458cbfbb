"""What is so while a training is asked for: its data, what validation says of it, and the budget."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipelines import params
from pipelines.costs.budgets import PlannedTraining, check_budget
from pipelines.dataset import Dataset
from pipelines.features.building import find_source_columns
from pipelines.features.pin import WindowSpec
from pipelines.lake import PARTITION, Lake
from pipelines.settings import settings
from pipelines.validation.results_table import Evidence
from pipelines.window import DAY, Days, Window

PRICED = {"region", "instance_types", "max_run_s"}
"""Keys of params.yaml, section budget, without which there is no worst case to hold against it."""


def training_window(as_of: dt.date) -> WindowSpec:
    """Read the window of a training as of a moment: the section `snapshot` of params.yaml, with that moment.

    Raises:
        SpecError: the section is not valid. A retry cannot help.
    """
    section = params.load_section(settings().project, "snapshot")
    return WindowSpec.parse({**section, "as_of": as_of}, "params.yaml, section 'snapshot'")


def data_digest(lake: Lake, chosen: Dataset, window: Window) -> str:
    """Digest what a training would see: the published days of its window, and their content."""
    versions = lake.find_versions(chosen.published, lake.count_rows_of_days(chosen.published, [*window.all]))
    content = {str(day): version for day, version in versions.items()} | {"window": str(window)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def broken(lake: Lake, chosen: Dataset, days: Days, worst: Collection[str]) -> Iterator[str]:
    """What the last validation of each day found wrong, in words: days that it blocked, and the drifted columns.

    Args:
        lake: the lake.
        chosen: dataset that was validated.
        days: of the window in which drift was seen.
        worst: features that drifted; the columns that they are made of are looked at. A score or a metric has none.
    """
    if not days:
        return
    rows = Evidence(lake).newest(chosen.name, days.first, days.last)
    published = lake.count_rows_of_days(chosen.published, [*days])
    suspects = _columns(lake, chosen, worst) if published else set()
    for day in dict.fromkeys(row[PARTITION] for row in rows if row[PARTITION] not in published):
        yield f"{day} was not published"
    for row in rows:
        if not row["success"] and (row["severity"] == "critical" or suspects & _about(row)):
            yield _words(row)


def over_budget() -> str:
    """Why params.yaml, section budget, does not allow its worst case; empty where it does, or names none.

    Money is of the month on the wall: a replay pays today.
    """
    section = params.load_section(settings().project, "budget")
    if not section.keys() >= PRICED:
        return ""
    verdict = check_budget(PlannedTraining.parse(section, "params.yaml, section 'budget'"))
    return "" if verdict.allowed else verdict.reason


def before(as_of: dt.date, days: int) -> Days:
    """So many days before a moment."""
    return Days(as_of - days * DAY, as_of - DAY)


def _columns(lake: Lake, chosen: Dataset, worst: Collection[str]) -> set[str]:
    made = find_source_columns(chosen, lake.read_schema(chosen.published)) if set(worst) & set(chosen.features) else {}
    return set(worst).union(*(made.get(name, ()) for name in worst))


def _about(row: Mapping[str, Any]) -> set[str]:
    """The columns that a failed expectation accuses. What is merely told of several together accuses none of them."""
    told = row["column"] or ""
    return {told, *(told.split(", ") if row["severity"] != "info" else ())}


def _words(row: Mapping[str, Any]) -> str:
    column = f" of {row['column']}" if row["column"] else ""
    return f"{row[PARTITION]}: {row['severity']} {row['expectation']}{column}: {row['error'] or row['observed']}"
