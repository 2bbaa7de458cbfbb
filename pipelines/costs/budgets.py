"""Compare the worst-case cost of a training with the budget of its run and its project's budget of the month.

The project's ended jobs, and its endpoints until the end of the month, use up the budget of the month. A job that still
runs is not in the ledger yet, so trainings that start at the same time see the same remaining budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from pipelines import params
from pipelines.contract import Result, Spec
from pipelines.costs.charges import compute_worst_case_usd, format_usd
from pipelines.errors import LeewayError
from pipelines.settings import settings

if TYPE_CHECKING:
    from pipelines.costs.endpoints.running import RunningFleet
    from pipelines.costs.spending import Spending
    from pipelines.lake import Lake

Month = Annotated[str, StringConstraints(pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
HOUR_S, DAY_S = 3_600, 86_400
TOLERANCE_USD = 1e-9
"""Tolerance for rounding errors of floats: a budget that is used up exactly is not exceeded."""


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
    trainings: int = Field(default=1, ge=1)
    """Number of such trainings: the trials of a tuning."""
    budget_usd: Money | None = None
    """Highest allowed cost of all `trainings` together, USD; null: no limit."""
    project: str = ""
    """Project that pays; empty: the project in section `budget` of params.yaml."""
    model: str = ""
    """Model to train; empty if there is none. Its models/NAME/params.yaml may set another project and budget."""
    month: Month = ""
    """Month whose budget is used (YYYY-MM); empty: the current month in UTC."""
    month_usd: Money | None = None
    """Highest allowed spending of the project in the month, USD; null: no limit."""


class BudgetVerdict(Result):
    """Whether a training fits into its budgets, with the figures behind the answer."""

    prices_usd_h: dict[str, float]
    """On-demand price of each instance type, USD per hour and instance."""
    price_date: str
    """Date of the oldest of these prices (YYYY-MM-DD)."""
    worst_case_usd: float
    """Cost if all `trainings` run for `max_run_s` seconds on the most expensive instance type, on demand, USD."""
    month_spent_usd: float
    """Cost of the project's ended jobs and metered hours of endpoints in the month, USD."""
    month_running_usd: float
    """Expected cost of the project's running endpoints until the end of the month, USD."""
    month_budget_usd: float | None
    """Budget of the month, USD; null if there is none."""
    allowed: bool
    """Whether the training may start."""
    reason: str
    """The reason in one line."""


def find_paying_project(project: str, model: str = "") -> str:
    """Return `project`; if it is empty, return the project that the parameters of the model name, or else "".

    Raises:
        SpecError: the parameters are not valid. A retry cannot help.
    """
    return project or str(params.load_section(settings().project, "budget", model).get("project", ""))


def find_budgets(models: Iterable[str]) -> dict[str, float | None]:
    """Map each project of the models to its monthly budget, USD; None if it has no budget.

    If the parameters of several models give a project different budgets, the smallest one is used. A model whose
    parameters are not valid is left out.
    """
    budgets: dict[str, float | None] = {}
    for model in models:
        try:
            project = find_paying_project(project="", model=model)
            budget = params.load_section(settings().project, "budget", model).get("month_usd")
        except LeewayError:  # Leeway's page names the models that cannot be read, with the error
            continue
        known_budgets = [value for value in (budget, budgets.get(project)) if value is not None]
        budgets[project] = min(known_budgets, default=None)
    return budgets


def compute_month_left_usd(project: str, model: str, running_fleets: Iterable[RunningFleet]) -> float | None:
    """Compute what is left of the budget of the current month, USD; None if there is no budget.

    The result is negative if the budget is exceeded.

    Args:
        project: project that pays; empty: the one that the parameters of the model name.
        model: model whose parameters give the budget; empty if there is none.
        running_fleets: endpoints that run, of any project.

    Raises:
        SpecError: the parameters are not valid. A retry cannot help.
        DataError: the cost of a job or an endpoint of the project is not known. A retry cannot help.
        ServiceError, ConflictError: the lake does not answer. A retry can help.
    """
    from pipelines.costs.ledger import get_current_month
    from pipelines.costs.spending import read_spending

    month_usd = params.load_section(settings().project, "budget", model).get("month_usd")
    if month_usd is None:
        return None
    spending = read_spending(find_paying_project(project, model), get_current_month(), running_fleets)
    return float(month_usd) - spending.total_usd


def check_budget(
    training: PlannedTraining, running_fleets: Sequence[RunningFleet], lake: Lake | None = None
) -> BudgetVerdict:
    """Compare the worst-case cost of a training with the budget of its run and with the budget of the month.

    Args:
        training: the training.
        running_fleets: endpoints that run, of any project.
        lake: lake with the ledgers; None: the configured one.

    Raises:
        SpecError: an instance type is retired or unknown, or the model's parameters are not valid. A retry cannot help.
        DataError: the price of a type, or the cost of a job or an endpoint, is not known. A retry cannot help.
        ServiceError, ConflictError: the lake or AWS's prices do not answer. A retry can help.
    """
    from pipelines.costs.ledger import get_current_month
    from pipelines.costs.prices import find_launch_price
    from pipelines.costs.spending import read_spending

    prices = {name: find_launch_price(name, training.region) for name in training.instance_types}
    most_expensive = max(prices, key=lambda instance_type: prices[instance_type].usd_h)
    instance_count, seconds = training.instance_count, training.trainings * training.max_run_s
    worst_case_usd = compute_worst_case_usd(prices[most_expensive].usd_h, instance_count, seconds)
    project = find_paying_project(training.project, training.model)
    month = training.month or get_current_month()
    spending = read_spending(project, month, running_fleets, lake)
    worst_case_text = _describe_worst_case(training, most_expensive, prices[most_expensive].usd_h, worst_case_usd)
    excess_reason = _explain_run_excess(training, worst_case_usd) or _explain_month_excess(
        training, worst_case_usd, spending, project or "the project", month
    )
    return BudgetVerdict(
        prices_usd_h={name: price.usd_h for name, price in prices.items()},
        price_date=min(price.date for price in prices.values()).isoformat(),
        worst_case_usd=worst_case_usd,
        month_spent_usd=spending.spent_usd,
        month_running_usd=spending.running_usd,
        month_budget_usd=training.month_usd,
        allowed=not excess_reason,
        reason=f"{worst_case_text}: {excess_reason or 'within the budgets that are set'}.",
    )


def _describe_worst_case(
    training: PlannedTraining, instance_type: str, price_usd_h: float, worst_case_usd: float
) -> str:
    trials = f"{training.trainings} trials of " if training.trainings > 1 else ""
    return (
        f"the worst case, {trials}{training.instance_count} x {instance_type} at {price_usd_h:g} USD/h "
        f"for {_format_duration(training.max_run_s)}, is {format_usd(worst_case_usd)}"
    )


def _format_duration(seconds: int) -> str:
    """Format a duration: in hours if it is a day or longer, else in seconds."""
    return f"{seconds / HOUR_S:g} h" if seconds >= DAY_S else f"{seconds} s"


def _explain_run_excess(training: PlannedTraining, worst_case_usd: float) -> str:
    """Explain why the worst case exceeds the run's budget; empty if it does not."""
    if training.budget_usd is None or worst_case_usd <= training.budget_usd + TOLERANCE_USD:
        return ""
    return f"more than the run's budget of {format_usd(training.budget_usd)}"


def _explain_month_excess(
    training: PlannedTraining, worst_case_usd: float, spending: Spending, project: str, month: str
) -> str:
    """Explain why the worst case exceeds the rest of the month's budget; empty if it does not."""
    if training.month_usd is None or spending.total_usd + worst_case_usd <= training.month_usd + TOLERANCE_USD:
        return ""
    left_text = format_usd(max(0.0, training.month_usd - spending.total_usd))
    budget_text = f"{project}'s {format_usd(training.month_usd)} for {month}"
    return f"more than the {left_text} left of {budget_text}, of which {spending.describe()}"
