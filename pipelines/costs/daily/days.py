"""Sum the costs of jobs and endpoints by project and day, in UTC."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class DailyCosts:
    """The cost of each day of a series without gaps: a day without a row in the ledgers costs 0.

    Attributes:
        first: first day of the series.
        usd: cost of each day from then on, USD.
    """

    first: dt.date
    usd: list[float]

    @property
    def days(self) -> list[dt.date]:
        """The days, oldest first."""
        return [self.first + dt.timedelta(number) for number in range(len(self.usd))]


def sum_days(rows: Iterable[Row], last: dt.date) -> DailyCosts:
    """Sum the costs of each day from the first one with a row to `last`; no days if there is no row.

    The cost of a job belongs to the day of its creation, the cost of a metered period of an endpoint to the day in
    which the period began. Rows of days after `last` are left out.
    """
    costs: dict[dt.date, float] = {}
    for row in rows:
        day = get_day(row)
        costs[day] = costs.get(day, 0.0) + row["cost_usd"]
    first = min(costs, default=last)
    count = (last - first).days + 1 if costs else 0
    return DailyCosts(first, [costs.get(first + dt.timedelta(number), 0.0) for number in range(max(count, 0))])


def sum_days_by_project(rows: Iterable[Row], last: dt.date) -> dict[str, DailyCosts]:
    """Sum the costs of each day for each project in the rows. The projects are sorted by name."""
    rows_by_project: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_project.setdefault(row["project"] or "", []).append(row)
    return {project: sum_days(rows_by_project[project], last) for project in sorted(rows_by_project)}


def get_day(row: Row) -> dt.date:
    """Return the day, in UTC, to which the cost of a row belongs."""
    moment: dt.datetime = row.get("created") or row["begin"]  # of a job, or of a metered period of an endpoint
    return moment.astimezone(dt.UTC).date()
