"""What jobs cost: asked of the step `budget` before a job, and told to the step `charge` after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from leeway.hooks.sagemaker.description import billed_cost_usd
from leeway.hooks.sagemaker.machines import Machine
from leeway.hooks.step.hook import StepHook


@dataclass(frozen=True)
class Account:
    """Who pays, and how much at most.

    Args:
        region: of the prices.
        project: of the month's budget.
        model: that is trained.
        budget_usd: of all attempts of the task together, US dollars; None: as much as it takes.
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

    def asked(self, rungs: Sequence[Machine]) -> dict[str, Any]:
        """`BudgetResult` for the dearest machine that the task may come to."""
        first = rungs[0]
        return self.step.run(
            "budget",
            {
                "region": self.account.region,
                "instance_types": sorted({one.instance_type for one in rungs}),
                "instance_count": first.instance_count,
                "max_run_s": first.max_run_s,
                "budget_usd": self.account.budget_usd,
                "project": self.account.project,
            },
        )

    def allow(self, rungs: Sequence[Machine]) -> dict[str, float]:
        """The prices, US dollars an hour, of a job that the budgets allow.

        Raises:
            AirflowFailException: the worst case exceeds what the run or the project's month may cost.
        """
        told = self.asked(rungs)
        if not told["allowed"]:
            raise AirflowFailException(f"the budget does not allow this job: {told['reason']}")
        return dict(told["prices_usd_h"])

    def charged(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """`ChargeResult` of the jobs, whose rows are in the ledger then. Idempotent by job."""
        paid = {"region": self.account.region, "project": self.account.project, "model": self.account.model}
        return self.step.run("charge", {"jobs": list(jobs), **paid, **self.account.task})


def spent_usd(ended: Sequence[Mapping[str, Any]], prices_usd_h: Mapping[str, float]) -> float:
    """What ended jobs cost; one whose type has no price here counts as the dearest."""
    dearest = max(prices_usd_h.values(), default=0.0)
    return sum(billed_cost_usd(job, prices_usd_h.get(job["ResourceConfig"]["InstanceType"], dearest)) for job in ended)
