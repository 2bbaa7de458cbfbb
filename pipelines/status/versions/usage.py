"""Find out what the versions of a model were used for: the days that each scored, and the endpoints that served it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyiceberg.expressions import EqualTo

from pipelines.lake.cached import CachedLake
from pipelines.lake.month_table import MonthTable
from pipelines.monitoring.profiles import table as profiles
from pipelines.registry.lifecycle import Kind, State
from pipelines.status.documents.lineage import ScoredDays, ServingPeriod

COLUMNS = ("day", "model_name", "model_version", "rows")
"""Columns of the table `profiles` that are read."""


def find_scored_days(lake: CachedLake, model: str, table: str) -> dict[str, ScoredDays]:
    """Map each version of a model to the days that it scored: those for which it has a profile.

    Args:
        lake: lake with the table of profiles, which is read once for all models.
        model: registered model.
        table: table of its predictions.
    """
    return {
        version: ScoredDays(table=table, **sums)
        for (name, version), sums in lake.get_or_read(profiles.TABLE, "scored days", lambda: _sum_days(lake)).items()
        if name == model
    }


def list_serving_periods(state: State) -> dict[str, list[ServingPeriod]]:
    """Map each version of a model to the periods in which endpoints served it, sorted by end; open periods are last."""
    periods: dict[str, list[ServingPeriod]] = {}
    open_periods: dict[str, tuple[str, dt.datetime]] = {}
    for event in state.events:
        if event.kind not in (Kind.DEPLOYED, Kind.UNDEPLOYED):
            continue
        endpoint = str(event.evidence.get("endpoint", ""))
        version, begin = open_periods.pop(endpoint, ("", event.at))
        if event.kind is Kind.DEPLOYED and event.version == version:  # another configuration of the same version
            open_periods[endpoint] = version, begin
            continue
        if version:
            periods.setdefault(version, []).append(ServingPeriod(endpoint=endpoint, since=begin, until=event.at))
        if event.kind is Kind.DEPLOYED:
            open_periods[endpoint] = event.version, event.at
    for endpoint, (version, begin) in open_periods.items():
        periods.setdefault(version, []).append(ServingPeriod(endpoint=endpoint, since=begin, until=None))
    return periods


def _sum_days(lake: CachedLake) -> dict[tuple[str, str], dict[str, Any]]:
    """Map each model and version to the range and number of its profiled days, and the number of their rows."""
    months = MonthTable(profiles.TABLE, profiles.SCHEMA, lake.catalog)
    rows = months.read(EqualTo("at", 0), COLUMNS)  # the first row of each profile
    sums = rows.group_by(["model_name", "model_version"]).aggregate(
        [("day", "min"), ("day", "max"), ("day", "count"), ("rows", "sum")]
    )
    return {
        (row["model_name"], row["model_version"]): {
            "first": row["day_min"],
            "last": row["day_max"],
            "days": row["day_count"],
            "rows": row["rows_sum"] or 0,
        }
        for row in sums.to_pylist()
    }
