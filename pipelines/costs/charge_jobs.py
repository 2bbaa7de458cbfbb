"""Charge ended jobs: compute the cost of each job, and write one row for it to the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.costs.budgets import find_paying_project
from pipelines.costs.charges import Charge, Job, compute_charge, format_usd, sum_charges
from pipelines.costs.ledger import Ledger
from pipelines.costs.payers import Payer, find_dataset
from pipelines.costs.predictions import PREDICTIONS
from pipelines.costs.prices import find_price
from pipelines.costs.restored_checkpoints import count_restores
from pipelines.costs.usage.columns import flatten_usage
from pipelines.system.log import log

JOB_COLUMNS = {
    *("secondary_status", "failure_reason", "created", "started", "ended", "data_wait_share", "instance_choice"),
    *("prediction_basis", "input_bytes"),
    *PREDICTIONS,
}
"""Fields of `Job` that become columns of the ledger. All fields of its `Charge` become columns, too."""


class JobPurpose(Payer):
    """What a job ran for: columns of the ledger that do not come from SageMaker's description of the job."""

    region: str
    """AWS region, such as us-east-1."""
    project: str = ""
    model: str = ""
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1


def charge_jobs(jobs: Sequence[Job], purpose: JobPurpose) -> list[Charge]:
    """Write a row for each job into the ledger. Idempotent: the first row of a job stays as it is.

    Args:
        jobs: one or more jobs that have ended.
        purpose: what the jobs ran for; if its project or dataset is empty, that of the model's parameters is used.

    Returns:
        The charges in the ledger, in the order of `jobs`.

    Raises:
        DataError: one of `jobs` describes a job that has not ended, or an instance type has no known price. Then no job
            is charged. A retry cannot help.
        InvalidError: the parameters of the model are not valid, or AWS denies access to its prices. A retry cannot
            help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    prices = {name: find_price(name, purpose.region) for name in sorted({job.instance_type for job in jobs})}
    purpose_fields = purpose.model_dump() | {
        "project": find_paying_project(purpose.project, purpose.model),
        "dataset": purpose.dataset or find_dataset(purpose.model),
    }
    rows = [
        job.model_dump(include=JOB_COLUMNS)
        | compute_charge(job, prices[job.instance_type]).model_dump()
        | flatten_usage(job)
        | count_restores(job)
        | {"price_source": prices[job.instance_type].source}
        | purpose_fields
        for job in jobs
    ]
    stored_rows = Ledger.open().add(rows)
    charges = [Charge(**{name: row[name] for name in Charge.model_fields}) for row in stored_rows]
    _log_totals(charges)
    return charges


def _log_totals(charges: Sequence[Charge]) -> None:
    sums = sum_charges(charges)
    log.info(
        "%d job(s), %d s trained, %d s billed: %s, %.1f%% saved by spot; %d interruption(s) lost %.0f s of training",
        *(len(charges), sums["training_s"], sums["billable_s"], format_usd(sums["cost_usd"]), 100 * sums["saving"]),
        *(sums["interruptions"], sums["lost_s"]),
    )
