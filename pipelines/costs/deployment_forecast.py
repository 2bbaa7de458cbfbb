"""Forecast what a deployment of an endpoint costs, and compare it with the budget of its project.

An endpoint runs until it is deleted. So the budget is checked twice. This month, the budget must cover what is spent
already, and all endpoints of the project, with the new one, until the end of the month. In a full month, it must cover
all these endpoints.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from pipelines.contract import Result, Spec
from pipelines.costs.budgets import TOLERANCE_USD, Money
from pipelines.costs.charges import DIGITS, Price, format_usd
from pipelines.costs.endpoints.fleets import HOUR_S, MB_PER_GB, compute_serverless_usd_h

if TYPE_CHECKING:
    from pipelines.costs.endpoints.fleets import Fleet
    from pipelines.costs.endpoints.running import RunningFleet

FULL_MONTH_H = 730
"""Hours of an average month."""


class PlannedDeployment(Spec):
    """A deployment that has not begun, and the project that pays."""

    region: str
    """AWS region, such as us-east-1."""
    endpoint: str = Field(min_length=1)
    """Name of the endpoint. If it runs already, the deployment replaces its instances."""
    instance_type: str = ""
    """Instance type of the endpoint; empty: it is serverless."""
    instance_count: int = Field(default=1, ge=1)
    """Number of instances."""
    serverless_memory_mb: int = Field(default=0, ge=0)
    """Memory of a serverless endpoint, MB; 0: it has instances."""
    serverless_load: float = Field(default=1.0, gt=0)
    """Number of requests that a serverless endpoint works on at a time, on average over day and night."""
    release_s: int = Field(default=0, ge=0)
    """Seconds for which the present and the new instances run together."""
    project: str = ""
    """Project that pays; empty: the project in section `budget` of params.yaml."""
    model: str = ""
    """Model to deploy. Its models/NAME/params.yaml may set another project and budget."""
    month_usd: Money | None = None
    """Highest allowed spending of the project in a month, USD; null: the budget in section `budget` of
    params.yaml, or no limit if there is none."""

    @model_validator(mode="after")
    def _check_machine(self) -> Self:
        if bool(self.instance_type) == bool(self.serverless_memory_mb):
            raise ValueError("a deployment has either instance_type or serverless_memory_mb")
        return self


class DeploymentForecast(Result):
    """What a deployment costs, and whether it fits into the budget of its project."""

    endpoint: str
    """Name of the endpoint."""
    price_usd_h: float
    """On-demand price of the instance type, USD per hour and instance; of a serverless endpoint, USD per hour of work
    with 1 GB."""
    price_date: str
    """Date of the price (YYYY-MM-DD)."""
    usd_h: float
    """Cost of an hour of all instances, USD; of a serverless endpoint, with `serverless_load`."""
    full_month_usd: float
    """Cost of a full month of 730 hours, USD."""
    rest_of_month_usd: float
    """Cost from now to the end of the month, with the release, USD."""
    release_usd: float
    """Cost of the present instances while the new ones are released, USD; 0 for a new endpoint."""
    others_rest_of_month_usd: float
    """Expected cost of the project's other endpoints until the end of the month, USD."""
    others_full_month_usd: float
    """Expected cost of the project's other endpoints in a full month, USD."""
    project: str
    """Project that pays."""
    month: str
    """This month (YYYY-MM)."""
    month_spent_usd: float
    """Cost of the project in this month so far, USD: its ended jobs, the metered hours of its endpoints, and the time
    of this endpoint's present instances since their last metering."""
    month_budget_usd: float | None
    """Budget of a month, USD; null if there is none."""
    allowed: bool
    """Whether the budget allows the deployment."""
    reason: str
    """The reason in one line."""

    def format_lines(self) -> list[str]:
        """Format the forecast as lines for a terminal."""
        release_text = f", {format_usd(self.release_usd)} of it for the release" if self.release_usd else ""
        spent_text = f"{format_usd(self.month_spent_usd)} spent"
        others_text = f"other endpoints cost {format_usd(self.others_rest_of_month_usd)} until the end of the month"
        return [
            f"Endpoint {self.endpoint}: {format_usd(self.usd_h)} an hour (prices of {self.price_date}).",
            f"This month: {format_usd(self.rest_of_month_usd)} until the end of {self.month}{release_text}.",
            f"Full month: {format_usd(self.full_month_usd)}; other endpoints {format_usd(self.others_full_month_usd)}.",
            f"Budget:     {self.project or 'no project'}, {self.month}: {spent_text}, {others_text}.",
            f"{'Allowed' if self.allowed else 'Refused'}: {self.reason}",
        ]


def forecast_deployment(
    plan: PlannedDeployment, running_fleets: Sequence[RunningFleet], now: dt.datetime
) -> DeploymentForecast:
    """Compute what a deployment costs, and compare it with the budget.

    Args:
        plan: the deployment. Its project and budget are used unchanged; params.yaml is not read.
        running_fleets: endpoints that run, of any project.
        now: the current moment, with time zone.

    Raises:
        InvalidError: the instance type is retired; the instance type, or a serverless endpoint in the region, has no
            known price; AWS denies access to its prices; or a row of a ledger is damaged. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    month = f"{now.astimezone(dt.UTC):%Y-%m}"
    price, usd_h, machine_text = _price_machine(plan)
    amounts = _compute_amounts(plan, running_fleets, now, usd_h)
    excess_reason = _explain_excess(plan, amounts, month)
    costs_text = format_usd(amounts["full_month_usd"])
    full_month_text = f"a full month, {machine_text} for {FULL_MONTH_H} h, is {costs_text}"
    return DeploymentForecast(
        endpoint=plan.endpoint,
        price_usd_h=price.usd_h,
        price_date=price.date.isoformat(),
        **amounts,
        project=plan.project,
        month=month,
        month_budget_usd=plan.month_usd,
        allowed=not excess_reason,
        reason=f"{full_month_text}: {excess_reason or 'within the budgets that are set'}.",
    )


def _price_machine(plan: PlannedDeployment) -> tuple[Price, float, str]:
    """Return the price of the machine, the cost of an hour of all instances, USD, and a text with machine and price."""
    from pipelines.costs.prices import find_launch_price, find_serverless_price

    if not plan.serverless_memory_mb:
        price = find_launch_price(plan.instance_type, plan.region, "Hosting")
        text = f"{plan.instance_count} x {plan.instance_type} at {price.usd_h:g} USD/h"
        return price, price.usd_h * plan.instance_count, text
    price = find_serverless_price(plan.region)
    usd_h = compute_serverless_usd_h(price.usd_h, plan.serverless_memory_mb, plan.serverless_load)
    load_text = f"with {plan.serverless_load:g} request(s) at a time on average"
    return price, usd_h, f"{plan.serverless_memory_mb / MB_PER_GB:g} GB at {price.usd_h:g} USD/h and GB {load_text}"


def _compute_amounts(
    plan: PlannedDeployment, running_fleets: Sequence[RunningFleet], now: dt.datetime, usd_h: float
) -> dict[str, Any]:
    """Compute the amounts of a forecast, USD, by the name of their field."""
    from pipelines.costs.endpoints.running import get_month_bounds
    from pipelines.costs.spending import read_spending

    month = f"{now.astimezone(dt.UTC):%Y-%m}"
    project_fleets = [item for item in running_fleets if item.fleet.project == plan.project]
    present_fleets = [item for item in project_fleets if _is_replaced(item.fleet, plan)]
    other_fleets = [item for item in project_fleets if item not in present_fleets]
    spending = read_spending(plan.project, month, other_fleets)
    release_usd = sum(item.usd_h for item in present_fleets) * plan.release_s / HOUR_S
    hours_left = (get_month_bounds(month)[1] - now).total_seconds() / HOUR_S
    unmetered_usd = sum(item.compute_cost_usd(month, now) for item in present_fleets)
    amounts = {
        "usd_h": usd_h,
        "full_month_usd": FULL_MONTH_H * usd_h,
        "rest_of_month_usd": hours_left * usd_h + release_usd,
        "release_usd": release_usd,
        "others_rest_of_month_usd": spending.running_usd,
        "others_full_month_usd": FULL_MONTH_H * sum(item.usd_h for item in other_fleets),
        "month_spent_usd": spending.spent_usd + unmetered_usd,
    }
    return {name: round(amount, DIGITS) for name, amount in amounts.items()}


def _is_replaced(fleet: Fleet, plan: PlannedDeployment) -> bool:
    return (fleet.region, fleet.endpoint) == (plan.region, plan.endpoint)


def _explain_excess(plan: PlannedDeployment, amounts: Mapping[str, float], month: str) -> str:
    """Explain why the costs exceed the budget; empty if they do not."""
    if plan.month_usd is None:
        return ""
    budget_text = f"{plan.project or 'the project'}'s {format_usd(plan.month_usd)}"
    others_usd = amounts["others_full_month_usd"]
    if amounts["full_month_usd"] + others_usd > plan.month_usd + TOLERANCE_USD:
        others_text = f", of which other endpoints cost {format_usd(others_usd)}" if others_usd else ""
        return f"more than {budget_text} a month{others_text}"
    used_usd = amounts["month_spent_usd"] + amounts["others_rest_of_month_usd"]
    if amounts["rest_of_month_usd"] + used_usd <= plan.month_usd + TOLERANCE_USD:
        return ""
    left_text = format_usd(max(0.0, plan.month_usd - used_usd))
    return (
        f"the rest of {month}, {format_usd(amounts['rest_of_month_usd'])}, is more than the {left_text} left of "
        f"{budget_text}: {format_usd(amounts['month_spent_usd'])} are spent, and other endpoints will cost "
        f"{format_usd(amounts['others_rest_of_month_usd'])}"
    )
