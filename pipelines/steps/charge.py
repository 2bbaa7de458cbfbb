"""Writes what training jobs cost into the ledger: seconds, money, what spot saved, what interruptions took.

Idempotent: a job is charged once, however often and from wherever; its first row stands.
"""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.costs.charges import Charge, Job, sum_charges


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
    """Write a row for each job into the ledger, and add up what the jobs cost.

    Raises:
        DataError: a job has not ended, or its instance type has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    from pipelines.costs.charging import Account, charge_jobs

    charges = charge_jobs(spec.jobs, Account(**spec.model_dump(exclude={"jobs"})))
    return ChargeResult(jobs=charges, **sum_charges(charges))
