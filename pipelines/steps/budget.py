"""Says whether a training may start: its worst case against the budget of the run and of the month.

A verdict is a result, not an error. What still runs is not in the ledger yet, so trainings that start together see the
same rest of a month.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from pipelines import params
from pipelines.contract import Result, Spec
from pipelines.costs.charges import usd, worst_case_usd
from pipelines.settings import settings
from pipelines.system.log import log

Month = Annotated[str, StringConstraints(pattern=r"^(\d{4}-(0[1-9]|1[0-2]))?$")]
Money = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TOLERANCE_USD = 1e-9
"""What sums of binary fractions may be off: a budget that is reached exactly is not exceeded."""


class BudgetSpec(Spec):
    """A training that is to be started."""

    region: str
    """AWS region, such as us-east-1."""
    instance_types: list[str] = Field(min_length=1)
    """Every instance type that it may come to run on."""
    instance_count: int = Field(default=1, ge=1)
    """Instances."""
    max_run_s: int = Field(ge=1)
    """Its longest training time, seconds."""
    budget_usd: Money | None = None
    """Most that it may cost, USD; no such limit where it is not given."""
    project: str = ""
    """Project that pays; the one of section `budget` of params.yaml where it is not given."""
    month: Month = ""
    """Month whose budget it takes from (YYYY-MM); the current one in UTC where it is not given."""
    month_usd: Money | None = None
    """Most that the project may spend in a month, USD; no such limit where it is not given."""


class BudgetResult(Result):
    """The verdict."""

    prices_usd_h: dict[str, float]
    """On-demand price of each type, USD an hour and instance."""
    price_date: str
    """As of when the oldest of them is (YYYY-MM-DD)."""
    worst_case_usd: float
    """What it costs at most: its longest run on the dearest type, on demand."""
    month_spent_usd: float
    """What the project's ended jobs of the month cost."""
    month_budget_usd: float | None
    """The month's budget; null where there is none."""
    allowed: bool
    """Whether it may start."""
    reason: str
    """Why, in a line."""


def project_or_ours(given: str) -> str:
    """The project that is given, or the one that params.yaml names.

    Raises:
        SpecError: params.yaml is not valid.
    """
    return given or str(params.section(settings().project, "budget").get("project", ""))


def run(spec: BudgetSpec) -> BudgetResult:
    """Whether the worst case fits both budgets.

    Raises:
        DataError: an instance type has no known price. A retry cannot help.
        ServiceError: prices are asked of AWS, which does not answer. A retry can help.
    """
    from pipelines.costs.ledger import Ledger, this_month
    from pipelines.costs.prices import price

    prices = {instance_type: price(instance_type, spec.region) for instance_type in spec.instance_types}
    dearest = max(prices, key=lambda instance_type: prices[instance_type].usd_h)
    worst = worst_case_usd(prices[dearest].usd_h, spec.instance_count, spec.max_run_s)
    project, month = project_or_ours(spec.project), spec.month or this_month()
    spent = Ledger.open().spent_usd(month, project)
    what = (
        f"the worst case, {spec.instance_count} x {dearest} at {prices[dearest].usd_h:g} USD/h "
        f"for {spec.max_run_s} s, is {usd(worst)}"
    )
    complaint = _over_run(spec, worst) or _over_month(spec, worst, spent, f"{project or 'the project'}'s", month)
    reason = f"{what}: {complaint or 'within the budgets that are set'}."
    log.info("%s: %s", "allowed" if not complaint else "refused", reason)
    return BudgetResult(
        prices_usd_h={name: one.usd_h for name, one in prices.items()},
        price_date=min(one.date for one in prices.values()).isoformat(),
        worst_case_usd=worst,
        month_spent_usd=spent,
        month_budget_usd=spec.month_usd,
        allowed=not complaint,
        reason=reason,
    )


def _over_run(spec: BudgetSpec, worst: float) -> str:
    if spec.budget_usd is None or worst <= spec.budget_usd + TOLERANCE_USD:
        return ""
    return f"more than the run's budget of {usd(spec.budget_usd)}"


def _over_month(spec: BudgetSpec, worst: float, spent: float, whose: str, month: str) -> str:
    if spec.month_usd is None or spent + worst <= spec.month_usd + TOLERANCE_USD:
        return ""
    left = max(0.0, spec.month_usd - spent)
    return f"more than the {usd(left)} left of {whose} {usd(spec.month_usd)} for {month}, where {usd(spent)} are spent"
