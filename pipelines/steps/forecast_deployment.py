"""Forecast what a deployment of an endpoint costs, and check it against the budget of its project.

The verdict is a result, not an error. Nothing is deployed.
"""

from __future__ import annotations

from pipelines.costs.deployment_forecast import DeploymentForecast, PlannedDeployment
from pipelines.system.log import log


class ForecastDeploymentSpec(PlannedDeployment):
    """A deployment that has not begun."""


class ForecastDeploymentResult(DeploymentForecast):
    """The cost of the deployment, and whether the budget allows it."""


def run(spec: ForecastDeploymentSpec) -> ForecastDeploymentResult:
    """Forecast the deployment. The project's other endpoints are read from the lake.

    Raises:
        SpecError: the parameters are not valid, or the instance type is retired. A retry cannot help.
        DataError: an instance type has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    import datetime as dt

    from pipelines import params
    from pipelines.costs.budgets import find_paying_project
    from pipelines.costs.deployment_forecast import forecast_deployment
    from pipelines.serving.metering.running import list_running_fleets
    from pipelines.settings import settings

    month_usd = params.load_section(settings().project, "budget", spec.model).get("month_usd")
    budget = {
        "project": find_paying_project(spec.project, spec.model),
        "month_usd": month_usd if spec.month_usd is None else spec.month_usd,
    }
    forecast = forecast_deployment(spec.model_copy(update=budget), list_running_fleets(), dt.datetime.now(dt.UTC))
    log.info("%s: %s", "allowed" if forecast.allowed else "refused", forecast.reason)
    return ForecastDeploymentResult(**forecast.model_dump())
