"""Find the days that are not scored because validation refused them, and the days whose profile has all their rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pipelines.dataset import Dataset
from pipelines.lake import DATE_COLUMN, Lake
from pipelines.monitoring.profiles.profile import Profile
from pipelines.partitions import HOUR_COLUMN, Hour, Partition, list_partitions
from pipelines.validation.results_table import ResultsTable
from pipelines.window import Days


def list_refused_days(lake: Lake, dataset: Dataset, days: Days) -> set[dt.date]:
    """List the days that failed validation and are not published. They are not scored before their data change.

    A day that passed validation is not in the list, even if it is not published yet. If partitions are hours, a day is
    in the list only if validation refused all its hours.
    """
    refused_partitions = _list_refused_partitions(lake, dataset, days)
    return {day for day in days if refused_partitions.issuperset(list_partitions(Days(day, day), dataset.partition))}


def select_complete_days(
    lake: Lake, dataset: Dataset, profiles: Mapping[dt.date, Profile], model_name: str, version: str
) -> dict[dt.date, Profile]:
    """Select the days whose profile has all rows; if partitions are not hours, return all days.

    If partitions are hours, the version must have scored each hour that validation did not refuse, and the profile
    must count all rows that the version scored.
    """
    if dataset.partition != "hour" or not profiles:
        return dict(profiles)
    days = Days(min(profiles), max(profiles))
    refused_hours = _list_refused_partitions(lake, dataset, days)
    key_values = {"model_name": model_name, "model_version": version}
    row_counts = lake.count_rows_of_partitions(dataset.predictions, list(list_partitions(days, "hour")), key_values)
    complete_profiles = {}
    for day, profile in profiles.items():
        hours = [*list_partitions(Days(day, day), "hour")]
        is_scored = all(hour in row_counts or hour in refused_hours for hour in hours)
        if is_scored and profile.rows == sum(row_counts.get(hour, 0) for hour in hours):
            complete_profiles[day] = profile
    return complete_profiles


def _list_refused_partitions(lake: Lake, dataset: Dataset, days: Days) -> set[Partition]:
    """List the partitions that are not published, and whose last validation failed an expectation.

    Failed expectations of severity `info` do not count.
    """
    rows = ResultsTable(lake).read_newest(dataset.table, days.first, days.last)
    failed_rows = [row for row in rows if not row["success"] and row["severity"] != "info"]
    failed_partitions: set[Partition] = {
        Hour(row[DATE_COLUMN], row[HOUR_COLUMN]) if dataset.partition == "hour" else row[DATE_COLUMN]
        for row in failed_rows
    }
    return failed_partitions - lake.count_rows_of_partitions(dataset.table, failed_partitions).keys()
