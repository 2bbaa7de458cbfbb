"""Compare the worst case of a training with the budgets of its run and of its project's month.

A job that still runs is not in the ledger yet: trainings that start at the same time see the same remaining budget.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from pipelines import params
from pipelines.contract import Result, Spec
from pipelines.costs.charges import compute_worst_case_usd, format_usd
from pipelines.settings import settings

Month = Annotated[str, StringConstraints(pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TOLERANCE_USD = 1e-9
"""Rounding error of sums of binary fractions: a budget that is used up exactly is not exceeded."""


class PlannedTraining(Spec):
    """A training that has not started, and the budgets that it must fit into."""

    region: str
    """AWS region, such as us-east-1."""
    instance_types: list[str] = Field(min_length=1)
    """Every instance type that the training may run on."""
    instance_count: int = Field(default=1, ge=1)
    """Number of instances."""
    max_run_s: int = Field(ge=1)
    """Longest training time, seconds."""
    budget_usd: Money | None = None
    """Most that the training may cost, USD; no limit where it is not set."""
    project: str = ""
    """Project that pays; section `budget` of params.yaml names it where it is not set."""
    month: Month = ""
    """Month whose budget is used (YYYY-MM); the current month in UTC where it is not set."""
    month_usd: Money | None = None
    """Most that the project may spend in the month, USD; no limit where it is not set."""


class BudgetVerdict(Result):
    """Whether a training fits into its budgets, with the figures behind the answer."""

    prices_usd_h: dict[str, float]
    """On-demand price of each instance type, USD per hour and instance."""
    price_date: str
    """Date of the oldest of these prices (YYYY-MM-DD)."""
    worst_case_usd: float
    """Cost of the longest run on the most expensive instance type, on demand, USD."""
    month_spent_usd: float
    """Cost of the project's jobs of the month that have ended, USD."""
    month_budget_usd: float | None
    """Budget of the month, USD; null where there is none."""
    allowed: bool
    """Whether the training may start."""
    reason: str
    """The reason in one line."""


def find_paying_project(project: str) -> str:
    """Return `project`; where it is empty, the project that params.yaml names.

    Raises:
        SpecError: params.yaml is not valid. A retry cannot help.
    """
    return project or str(params.load_section(settings().project, "budget").get("project", ""))


def check_budget(training: PlannedTraining) -> BudgetVerdict:
    """Compare the worst case of a training with the budget of its run and of the month.

    Raises:
        DataError: an instance type has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    from pipelines.costs.ledger import Ledger, get_current_month
    from pipelines.costs.prices import find_price

    prices = {instance_type: find_price(instance_type, training.region) for instance_type in training.instance_types}
    dearest = max(prices, key=lambda instance_type: prices[instance_type].usd_h)
    worst = compute_worst_case_usd(prices[dearest].usd_h, training.instance_count, training.max_run_s)
    project, month = find_paying_project(training.project), training.month or get_current_month()
    spent = Ledger.open().sum_cost_usd(month, project)
    worst_case = (
        f"the worst case, {training.instance_count} x {dearest} at {prices[dearest].usd_h:g} USD/h "
        f"for {training.max_run_s} s, is {format_usd(worst)}"
    )
    excess = _exceeds_run(training, worst) or _exceeds_month(training, worst, spent, project or "the project", month)
    return BudgetVerdict(
        prices_usd_h={name: found.usd_h for name, found in prices.items()},
        price_date=min(found.date for found in prices.values()).isoformat(),
        worst_case_usd=worst,
        month_spent_usd=spent,
        month_budget_usd=training.month_usd,
        allowed=not excess,
        reason=f"{worst_case}: {excess or 'within the budgets that are set'}.",
    )


def _exceeds_run(training: PlannedTraining, worst: float) -> str:
    if training.budget_usd is None or worst <= training.budget_usd + TOLERANCE_USD:
        return ""
    return f"more than the run's budget of {format_usd(training.budget_usd)}"


def _exceeds_month(training: PlannedTraining, worst: float, spent: float, project: str, month: str) -> str:
    if training.month_usd is None or spent + worst <= training.month_usd + TOLERANCE_USD:
        return ""
    left = format_usd(max(0.0, training.month_usd - spent))
    budget = f"{project}'s {format_usd(training.month_usd)} for {month}"
    return f"more than the {left} left of {budget}, where {format_usd(spent)} are spent"
