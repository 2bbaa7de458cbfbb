"""Check budgets and daily costs, and list each new notice once: a reached threshold, a forecast or an anomaly.

A retry of the same task gets the same list again, so a killed task loses no notice. Outside of a DAG run, the notices
are listed, but not recorded as sent.
"""

from __future__ import annotations

from pipelines.contract import Result
from pipelines.costs.showback.budget_states import BudgetState
from pipelines.costs.showback.notice import Notice
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.system.log import log


class ShowbackSpec(ShowbackPolicy):
    """The payers of the projects, the commitments, and the shares of a budget at which people are notified."""


class ShowbackResult(Result):
    """The budgets of the month, and what is new about the costs."""

    month: str
    """Current month, YYYY-MM."""
    month_usd: float
    """Cost of the month so far, USD."""
    unallocated_usd: float
    """Part of `month_usd` for which neither the jobs nor params.yaml name the team that pays, USD."""
    reserved_usd: float | None
    """Part of `month_usd` that the stated commitments cover, at on-demand prices, USD; null if none is stated, or if no
    price under a savings plan is known."""
    unused_commitment_usd: float | None
    """Unused part of the month's commitments until the end of yesterday, USD; null if none is stated."""
    budgets: list[BudgetState]
    """Budgets of the month, by project."""
    notices: list[Notice]
    """What people have to be notified of. Empty if there is nothing new."""


def run(spec: ShowbackSpec) -> ShowbackResult:
    """Check the budgets of the current month and the costs of the last days.

    Raises:
        DataError: a row of a ledger is damaged, or an endpoint that runs has no known price. A retry cannot help.
        ServiceError: the lake does not answer. A retry can help.
        ConflictError: other writers kept changing the table of notices. A retry can help.
    """
    import datetime as dt

    from pipelines import params
    from pipelines.costs.budgets import find_budgets
    from pipelines.costs.showback.notice_table import NoticeTable
    from pipelines.costs.showback.review import review_costs
    from pipelines.serving.metering.running import list_running_fleets
    from pipelines.settings import settings

    now = dt.datetime.now(dt.UTC)
    # The empty name stands for a project without models.
    budgets = find_budgets(params.list_model_names(settings().project) or [""])
    review = review_costs(spec, budgets, list_running_fleets(), now)
    notices = NoticeTable.open().claim(review.notices, settings().run, now)
    for notice in notices:
        log.warning("%s", notice.text)
    return ShowbackResult(
        month=review.month,
        month_usd=review.month_usd,
        unallocated_usd=review.unallocated_usd,
        reserved_usd=review.reserved_usd,
        unused_commitment_usd=review.unused_usd,
        budgets=list(review.states),
        notices=notices,
    )
