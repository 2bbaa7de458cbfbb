"""Check budgets before a job and charge ended jobs, by the steps `budget` and `charge`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker.description import compute_billed_cost_usd
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.step.hook import StepHook


@dataclass(frozen=True)
class Account:
    """Who pays for a task's jobs, and how much at most.

    Args:
        region: AWS region whose prices count.
        project: project whose monthly budget counts.
        model: name of the model.
        budget_usd: what all attempts of the task together may cost, US dollars; None: no limit.
        task: dag_id, run_id, task_id and map_index.
    """

    region: str
    project: str
    model: str
    budget_usd: float | None
    task: Mapping[str, Any]


class Costs:
    """The costs of one task's jobs.

    Args:
        step: runs the steps.
        account: who pays.
    """

    def __init__(self, step: StepHook, account: Account) -> None:
        self.step, self.account = step, account

    def check_budget(self, machines: Sequence[Machine]) -> dict[str, Any]:
        """Return the `BudgetResult` for the most expensive of the machines that the task may use."""
        first = machines[0]
        return self.step.run(
            "budget",
            {
                "region": self.account.region,
                "instance_types": sorted({machine.instance_type for machine in machines}),
                "instance_count": first.instance_count,
                "max_run_s": first.max_run_s,
                "budget_usd": self.account.budget_usd,
                "project": self.account.project,
            },
        )

    def require_budget(self, machines: Sequence[Machine]) -> dict[str, float]:
        """Return the prices, US dollars an hour by instance type, of a job that the budgets allow.

        Raises:
            AirflowFailException: the worst case costs more than the run or the project's month may. A retry cannot
                help.
        """
        budget = self.check_budget(machines)
        if not budget["allowed"]:
            raise AirflowFailException(f"the budget does not allow this job: {budget['reason']}")
        return dict(budget["prices_usd_h"])

    def charge(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Write ended jobs into the ledger; return the `ChargeResult`. Idempotent: one row a job."""
        payer = {"region": self.account.region, "project": self.account.project, "model": self.account.model}
        return self.step.run("charge", {"jobs": list(jobs), **payer, **self.account.task})


def compute_spent_usd(ended: Sequence[Mapping[str, Any]], prices_usd_h: Mapping[str, float]) -> float:
    """Return what ended jobs cost, US dollars; a type without a price here counts as the most expensive one."""
    highest = max(prices_usd_h.values(), default=0.0)
    return sum(
        compute_billed_cost_usd(job, prices_usd_h.get(job["ResourceConfig"]["InstanceType"], highest)) for job in ended
    )
