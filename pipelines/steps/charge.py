"""Writes what training jobs cost into the ledger: seconds, money, what spot saved, what interruptions took.

Idempotent: a job is charged once, however often and from wherever; its first row stands.
"""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.costs.charges import Charge, Job, charge, totals, usd
from pipelines.steps.budget import project_or_ours
from pipelines.system.log import log


class ChargeSpec(Spec):
    """The jobs of one training, and whose they are."""

    jobs: list[Job] = Field(min_length=1)
    """Jobs that ended, oldest first: name, arn, status, instances, times and transitions as Describe tells them."""
    region: str
    """AWS region that they ran in, such as us-east-1."""
    project: str = ""
    """Project that pays; the one of section `budget` of params.yaml where it is not given."""
    model: str = ""
    """Model that they trained."""
    dag_id: str = ""
    """DAG that asked for them; empty where none did."""
    run_id: str = ""
    """Its run."""
    task_id: str = ""
    """Its task."""
    map_index: int = -1
    """Map index of the task; -1 where it is not mapped."""


class ChargeResult(Result):
    """What the jobs cost, one by one and together."""

    jobs: list[Charge]
    """Each job as the ledger has it, oldest first."""
    training_s: int
    """Seconds of training, of all jobs."""
    billable_s: int
    """Seconds of it that are billed, of one instance."""
    instance_type: str
    """Of the last job."""
    instance_count: int
    """Of the last job."""
    price_usd_h: float
    """On-demand price of the last job's instance, USD an hour."""
    price_date: dt.date
    """As of when that price is."""
    cost_usd: float
    """What all jobs cost."""
    on_demand_usd: float
    """What they would have cost without spot."""
    saving: float
    """Share that spot saved: 1 - billable_s / training_s, weighted by price where jobs differ in it."""
    interruptions: int
    """Times that spot took the instances away."""
    lost_s: float
    """Seconds of training that interruptions undid."""
    capacity_s: float
    """Seconds without instances: before the first ones, and after each interruption."""
    first_capacity_s: float
    """Seconds from the first job's creation to its first instances."""


def run(spec: ChargeSpec) -> ChargeResult:
    """Every job of `spec` has its row in the ledger.

    Raises:
        DataError: a job has not ended, or its instance has no known price. A retry cannot help.
        ServiceError: prices are asked of AWS, which does not answer. A retry can help.
        ConflictError: others kept writing to the ledger. A retry can help.
    """
    from pipelines.costs.ledger import Ledger
    from pipelines.costs.prices import price

    types = {job.instance_type for job in spec.jobs}
    prices = {instance_type: price(instance_type, spec.region) for instance_type in sorted(types)}
    whose = spec.model_dump(include={"region", "model", "dag_id", "run_id", "task_id", "map_index"})
    whose["project"] = project_or_ours(spec.project)
    rows = [
        job.model_dump(include={"secondary_status", "failure_reason", "created", "started", "ended"})
        | charge(job, prices[job.instance_type]).model_dump()
        | {"price_source": prices[job.instance_type].source}
        | whose
        for job in spec.jobs
    ]
    kept = Ledger.open().add(rows)
    charges = [Charge(**{name: row[name] for name in Charge.model_fields}) for row in kept]
    result = ChargeResult(jobs=charges, **totals(charges))
    log.info(
        "%d job(s), %d s trained, %d s billed: %s, %.1f%% saved by spot; %d interruption(s) undid %.0f s",
        *(len(charges), result.training_s, result.billable_s, usd(result.cost_usd), 100 * result.saving),
        *(result.interruptions, result.lost_s),
    )
    return result
