"""Check whether a training may start: its highest possible cost must fit the budgets of the run and of the month.

The verdict is a result, not an error.
"""

from __future__ import annotations

from pipelines.costs.budgets import BudgetVerdict, PlannedTraining
from pipelines.system.log import log


class BudgetSpec(PlannedTraining):
    """A training that is about to start."""


class BudgetResult(BudgetVerdict):
    """Whether the training may start, and why."""


def run(spec: BudgetSpec) -> BudgetResult:
    """Check the training against its budgets.

    Raises:
        SpecError: an instance type is retired. A retry cannot help.
        DataError: the instance type of the training, or of a running endpoint, has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    from pipelines.costs.budgets import check_budget
    from pipelines.serving.metering.running import list_running_fleets

    verdict = check_budget(spec, list_running_fleets())
    log.info("%s: %s", "allowed" if verdict.allowed else "refused", verdict.reason)
    return BudgetResult(**verdict.model_dump())
