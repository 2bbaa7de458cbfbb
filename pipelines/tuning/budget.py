"""Forecast the cost of a trial, and refuse a budget that does not pay for one."""

from __future__ import annotations

from pipelines.costs.charges import compute_worst_case_usd, format_usd
from pipelines.costs.prices import find_launch_price
from pipelines.errors import SpecError
from pipelines.tuning.plan import PlanSpec


def forecast_trial_usd(plan: PlanSpec, instance_count: int = 1) -> float:
    """Return the highest cost of a trial on the plan's instance type, on demand, USD.

    Raises:
        InvalidError: the instance type is retired, or has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    price = find_launch_price(plan.instance_type, plan.region)
    return compute_worst_case_usd(price.usd_h, instance_count, plan.max_trial_s)


def check_budget(plan: PlanSpec) -> None:
    """Check that the budget, if there is one, pays for a trial.

    Raises:
        SpecError: the budget is less than the cost of one trial. A retry cannot help.
        InvalidError: the instance type is retired, or has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    if plan.budget_usd is None:
        return
    trial_usd = forecast_trial_usd(plan)
    if plan.budget_usd < trial_usd:
        raise SpecError(
            f"budget_usd {format_usd(plan.budget_usd)} is less than the cost of one trial, at most "
            f"{format_usd(trial_usd)}: {plan.max_trial_s} s on {plan.instance_type}.",
            "Raise budget_usd, or lower max_trial_s.",
        )
