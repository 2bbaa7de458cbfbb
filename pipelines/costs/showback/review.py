"""Review the costs of the current month and of the last days: budgets, and what people have to be notified of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.costs.daily.anomalies import judge_days
from pipelines.costs.daily.days import sum_days_by_project
from pipelines.costs.endpoints.ledger import EndpointLedger
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.costs.ledger import Ledger
from pipelines.costs.row_checks import check_rows
from pipelines.costs.showback.allocation import allocate_rows
from pipelines.costs.showback.budget_states import BudgetState, build_past_states, build_states, choose_budgets
from pipelines.costs.showback.notice import Notice
from pipelines.costs.showback.notices import list_anomaly_notices, list_budget_notices
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.costs.showback.reserved import add_reserved_costs
from pipelines.costs.showback.shares import sum_shares

JUDGED_DAYS = 8
"""Number of whole days before today that are judged. For as many days of a new month, the budgets of the last month are
checked, too. So if no review ran for a week, the next one still finds all anomalies and reached thresholds."""


@dataclass(frozen=True)
class Review:
    """The budgets of the current month, and the notices for people.

    Attributes:
        month: current month, YYYY-MM.
        month_usd: cost of the month so far, USD.
        unallocated_usd: part of `month_usd` without a team, USD.
        reserved_usd: part of `month_usd` that the stated commitments cover, at on-demand prices, USD; None if no
            commitment is stated, or if the part is known for no row.
        unused_usd: part of the month's commitments that was not used up to yesterday, USD; None if none is stated.
        states: budgets of the month.
        notices: all notices, including those that people have already got.
    """

    month: str
    month_usd: float
    unallocated_usd: float
    reserved_usd: float | None
    unused_usd: float | None
    states: Sequence[BudgetState]
    notices: Sequence[Notice]


def review_costs(
    policy: ShowbackPolicy, budgets: Mapping[str, float | None], fleets: Iterable[RunningFleet], now: dt.datetime
) -> Review:
    """Review the ledgers of the configured lake.

    Args:
        policy: section `showback`.
        budgets: each project with its month_usd of section `budget`.
        fleets: endpoints that run.
        now: the current moment, in UTC.

    Raises:
        DataError: a row of a ledger is damaged, or a table of prices is not valid. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    all_rows = allocate_rows([*Ledger.open().read_rows(), *EndpointLedger.open().read_rows()], policy)
    check_rows(all_rows)
    rows, coverage = add_reserved_costs(all_rows, policy.commitments, now)
    month, yesterday = f"{now:%Y-%m}", now.date() - dt.timedelta(days=1)
    states = build_states(choose_budgets(budgets, policy, month), rows, fleets, now)
    past_states = _build_past_states(policy, budgets, rows, now)
    days = {project: judge_days(costs, JUDGED_DAYS) for project, costs in sum_days_by_project(rows, yesterday).items()}
    month_rows = [row for row in rows if f"{row['date']:%Y-%m}" == month]
    shares = sum_shares(month_rows)
    return Review(
        month=month,
        month_usd=round(shares["cost_usd"], 6),
        unallocated_usd=round(sum(row["cost_usd"] for row in month_rows if not row["team"]), 6),
        reserved_usd=None if shares["reserved_usd"] is None else round(shares["reserved_usd"], 6),
        unused_usd=round(coverage.unused_usd.get(month, 0.0), 6) if coverage else None,
        states=states,
        notices=[*list_budget_notices([*past_states, *states], policy.thresholds_percent), *list_anomaly_notices(days)],
    )


def _build_past_states(
    policy: ShowbackPolicy, budgets: Mapping[str, float | None], rows: Sequence[Mapping[str, Any]], now: dt.datetime
) -> list[BudgetState]:
    """Return the states of the last month's budgets in the first `JUDGED_DAYS` days of a month; later, none.

    The last jobs of a month are charged after the month's last review.
    """
    if now.day > JUDGED_DAYS:
        return []
    month = f"{now.replace(day=1) - dt.timedelta(days=1):%Y-%m}"
    return build_past_states(choose_budgets(budgets, policy, month), rows, month)
