"""Compare the budgets of projects with the cost of a month so far, and with the expected cost at its end."""

from __future__ import annotations

import datetime as dt
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from pipelines.costs.daily.days import get_day
from pipelines.costs.showback.policy import ShowbackPolicy

if TYPE_CHECKING:
    from pipelines.costs.endpoints.running import RunningFleet

RATE_DAYS = 28
"""Largest number of whole days before today, from whose jobs the expected cost of a day is computed."""
MIN_RATE_DAYS = 7
"""Smallest number of days since a project's first job. With fewer days, no forecast is made."""

Row = Mapping[str, Any]


class BudgetState(BaseModel):
    """The budget of a project in a month, and its used part."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    project: str
    """Project that pays."""
    month: str
    """Month, YYYY-MM."""
    budget_usd: float
    """Budget of the month, USD."""
    spent_usd: float
    """Cost of ended jobs and metered endpoints, USD."""
    forecast_usd: float | None
    """Expected cost at the end of the month, USD; null if the project's jobs are known for less than a week, or if the
    month is over."""

    @property
    def used_percent(self) -> float:
        """Spent share of the budget, percent; of a budget of 0, 100 as soon as anything is spent."""
        if not self.budget_usd:
            return 100.0 if self.spent_usd else 0.0
        return 100 * self.spent_usd / self.budget_usd


def choose_budgets(budgets: Mapping[str, float | None], policy: ShowbackPolicy, month: str) -> dict[str, float]:
    """Return the budget of each project that has one in a month, sorted by project.

    Args:
        budgets: each project with its month_usd of section `budget`.
        policy: section `showback`, whose budgets replace those of section `budget`.
        month: month, YYYY-MM.
    """
    projects = {*budgets, *(key.partition("/")[0] for key in policy.budgets_usd)}
    chosen_budgets = {
        project: policy.budgets_usd.get(f"{project}/{month}", policy.budgets_usd.get(project, budgets.get(project)))
        for project in sorted(projects)
    }
    return {project: budget for project, budget in chosen_budgets.items() if budget is not None}


def build_states(
    budgets: Mapping[str, float], rows: Sequence[Row], fleets: Iterable[RunningFleet], now: dt.datetime
) -> list[BudgetState]:
    """Compute the used part of each budget of the current month.

    The forecast is a sum: the cost so far, the cost of running endpoints until the end of the month, and for each day
    after today the mean daily cost of the project's jobs. The mean is over the last `RATE_DAYS` whole days, or over
    all whole days since the project's first job, if these are fewer.

    Args:
        budgets: each project with its budget of the month, USD.
        rows: rows of both ledgers.
        fleets: endpoints that run.
        now: the current moment.
    """
    month = f"{now.astimezone(dt.UTC):%Y-%m}"
    running_usd: dict[str, float] = {}
    for item in fleets:
        project = item.fleet.project
        running_usd[project] = running_usd.get(project, 0.0) + item.compute_cost_usd(month)
    states = []
    for project, budget_usd in budgets.items():
        project_rows = [row for row in rows if row["project"] == project]
        spent_usd = _sum_month_usd(project_rows, month)
        job_rows = [row for row in project_rows if "created" in row]  # rows of endpoints have no such column
        rest_usd = forecast_rest_usd(job_rows, now)
        forecast_usd = None if rest_usd is None else spent_usd + running_usd.get(project, 0.0) + rest_usd
        states.append(
            BudgetState(
                project=project,
                month=month,
                budget_usd=budget_usd,
                spent_usd=round(spent_usd, 6),
                forecast_usd=None if forecast_usd is None else round(forecast_usd, 6),
            )
        )
    return states


def build_past_states(budgets: Mapping[str, float], rows: Sequence[Row], month: str) -> list[BudgetState]:
    """Compute the used part of each budget of a past month (YYYY-MM)."""
    return [
        BudgetState(
            project=project,
            month=month,
            budget_usd=budget_usd,
            spent_usd=round(_sum_month_usd((row for row in rows if row["project"] == project), month), 6),
            forecast_usd=None,
        )
        for project, budget_usd in budgets.items()
    ]


def forecast_rest_usd(rows: Sequence[Row], now: dt.datetime) -> float | None:
    """Return the expected cost of a project's jobs on the days of the month after today; None if too little is known.

    The result of a project without jobs is 0. Endpoints are not part of it.
    """
    if not rows:
        return 0.0
    today = now.astimezone(dt.UTC).date()
    known_days = min((today - min(map(get_day, rows))).days, RATE_DAYS)
    if known_days < MIN_RATE_DAYS:
        return None
    begin = today - dt.timedelta(known_days)
    rate_usd = sum(row["cost_usd"] for row in rows if begin <= get_day(row) < today) / known_days
    return float(rate_usd * (monthrange(today.year, today.month)[1] - today.day))


def _sum_month_usd(rows: Iterable[Row], month: str) -> float:
    return float(sum(row["cost_usd"] for row in rows if f"{row['date']:%Y-%m}" == month))
