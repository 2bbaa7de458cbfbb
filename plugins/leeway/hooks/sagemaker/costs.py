"""Check the budgets before a job starts (step `budget`), and charge jobs that ended (step `charge`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker.connection import AwsConnection
from leeway.hooks.sagemaker.description import compute_billed_cost_usd
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.step.hook import Logger, StepHook
from pipelines.costs.usage.job_metrics import read_usage
from pipelines.serving.endpoint_resources import compute_waits_s

USAGE_CONFIG = {"connect_timeout": 5, "read_timeout": 20, "retries": {"total_max_attempts": 2}}
"""Configuration of the client that reads the utilization of a job's instances."""
MAX_ERROR_CHARS = 300
"""Largest number of characters of an error that a line of the log shows."""


@dataclass(frozen=True)
class CostAllocation:
    """The task, the model and the project to which the costs of jobs are allocated, and the limit of these costs.

    Args:
        region: AWS region whose prices apply.
        project: project whose monthly budget applies; if empty, the project in params.yaml.
        model: name of the model; empty if there is none.
        budget_usd: highest cost of all attempts of the task together, US dollars; None: no limit.
        task: dag_id, run_id, task_id and map_index.
        priority: priority of the jobs; empty if they have none.
    """

    region: str
    project: str
    model: str
    budget_usd: float | None
    task: Mapping[str, Any]
    priority: str = ""


class Costs:
    """Check the budgets of one task's jobs, and write their costs to the ledger.

    Args:
        step_hook: runs the steps.
        allocation: task, model and project of the jobs.
    """

    def __init__(self, step_hook: StepHook, allocation: CostAllocation) -> None:
        self.step_hook, self.allocation = step_hook, allocation

    def check_budget(self, machines: Sequence[Machine], trainings: int = 1) -> dict[str, Any]:
        """Return the `BudgetResult` for the most expensive of the machines that the task may use.

        Args:
            machines: machines that a job may use.
            trainings: number of jobs; each of them may run for the whole max_run_s of its machine.
        """
        first_machine = machines[0]  # a task's machines differ only in instance type and spot
        return self.step_hook.run(
            "budget",
            {
                "region": self.allocation.region,
                "instance_types": sorted({machine.instance_type for machine in machines}),
                "instance_count": first_machine.instance_count,
                "max_run_s": first_machine.max_run_s,
                "trainings": trainings,
                "budget_usd": self.allocation.budget_usd,
                "project": self.allocation.project,
                "model": self.allocation.model,
            },
        )

    def require_budget(self, machines: Sequence[Machine], trainings: int = 1) -> dict[str, float]:
        """Check that the budgets allow `trainings` jobs; return the prices, US dollars an hour, by instance type.

        Raises:
            AirflowFailException: the highest possible cost of the jobs exceeds `budget_usd`, or the rest of the
                project's budget for this month. A retry cannot help.
        """
        budget = self.check_budget(machines, trainings)
        if not budget["allowed"]:
            raise AirflowFailException(f"the budget does not allow this job: {budget['reason']}")
        return dict(budget["prices_usd_h"])

    def require_deployment_budget(self, endpoint: str, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Check that the project's budget allows an endpoint; return the `ForecastDeploymentResult`.

        Args:
            endpoint: name of the endpoint.
            policy: the fields of section `serving`.

        Raises:
            AirflowFailException: until the end of this month, the endpoint costs more than is left of the project's
                budget; or all endpoints of the project cost more in a full month than the budget. A retry cannot help.
        """
        forecast = self.step_hook.run(
            "forecast_deployment",
            {
                "region": self.allocation.region,
                "endpoint": endpoint,
                **describe_machine(policy),
                "release_s": compute_waits_s(policy),
                "project": self.allocation.project,
                "model": self.allocation.model,
            },
        )
        if not forecast["allowed"]:
            raise AirflowFailException(f"the budget does not allow endpoint {endpoint}: {forecast['reason']}")
        return forecast

    def charge(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Write the costs of ended jobs to the ledger; return the `ChargeResult`. Idempotent: one row for each job.

        Args:
            jobs: records of the jobs, oldest first; see `pipelines.costs.job_records`.
        """
        names = ("region", "project", "model", "priority")
        fields = {name: getattr(self.allocation, name) for name in names}
        return self.step_hook.run("charge", {"jobs": list(jobs), **fields, **self.allocation.task})


def read_job_usage(connection: AwsConnection, job: Mapping[str, Any], log: Logger) -> dict[str, dict[str, float]]:
    """Read the utilization of an ended job's instances. A failure is only logged, since the job must be charged.

    Args:
        connection: connection to AWS. The timeouts of `USAGE_CONFIG` replace the connection's own, so that the task
            does not wait long for figures that it does not need.
        job: SageMaker's description of the job.
        log: log of the task.

    Returns:
        The field `usage` of the job's record; a resource whose utilization is not known is left out.
    """
    config = {**(connection.botocore_config or {}), **USAGE_CONFIG}
    try:
        hook = replace(connection, botocore_config=config).create_hook(partial(AwsBaseHook, client_type="cloudwatch"))
        return read_usage(hook.conn, job)
    except Exception as error:
        log.warning(
            "the utilization of the job's instances cannot be read: %s", " ".join(str(error).split())[:MAX_ERROR_CHARS]
        )
        return {}


def describe_machine(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of section `serving` that decide what an endpoint costs."""
    is_serverless = policy["serverless_memory_mb"] is not None
    names = ("serverless_memory_mb", "serverless_load") if is_serverless else ("instance_type", "instance_count")
    return {name: policy[name] for name in names}


def compute_spent_usd(ended_jobs: Sequence[Mapping[str, Any]], prices_usd_h: Mapping[str, float]) -> float:
    """Return what ended training jobs cost, US dollars.

    Args:
        ended_jobs: SageMaker's descriptions of the jobs.
        prices_usd_h: prices, US dollars an hour, by instance type. A type without a price gets the highest price.
    """
    highest_price = max(prices_usd_h.values(), default=0.0)
    return sum(
        compute_billed_cost_usd(job, prices_usd_h.get(job["ResourceConfig"]["InstanceType"], highest_price))
        for job in ended_jobs
    )
