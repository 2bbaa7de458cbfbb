"""Write into the ledger what jobs cost: seconds, USD, savings by spot, and training that interruptions lost.

Idempotent: a job is charged once, and its row stays as it is.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.costs.charges import Charge, Job, sum_charges


class ChargeSpec(Spec):
    """The jobs of one training, and who pays for them."""

    model_field: ClassVar[str] = ""  # the model of a job need not have a params.yaml in this project

    jobs: list[Job] = Field(min_length=1)
    """Ended jobs, oldest first: name, ARN, status, instances, times and transitions as SageMaker describes them."""
    region: str
    """AWS region in which the jobs ran, such as us-east-1."""
    project: str = ""
    """Project that pays; empty: the one in params.yaml, section `budget`."""
    model: str = ""
    """Model that the jobs trained."""
    dag_id: str = ""
    """DAG that started the jobs; empty if none did."""
    run_id: str = ""
    """Run of the DAG."""
    task_id: str = ""
    """Task of the DAG."""
    map_index: int = -1
    """Map index of the task; -1 if it is not mapped."""
    team: str = ""
    """Team that pays; empty: LEEWAY_TEAM."""
    environment: str = ""
    """Environment in which the jobs ran, such as production; empty: LEEWAY_ENVIRONMENT."""
    user: str = ""
    """Person for whom the jobs ran; empty: LEEWAY_USER, else the person who started the DAG run."""
    dataset: str = ""
    """Dataset of the jobs; empty: the one that the parameters of the model name."""
    priority: str = ""
    """Priority of the jobs, such as high; empty if they have none."""


class ChargeResult(Result):
    """The cost of each job, and the sum."""

    jobs: list[Charge]
    """Each job as the ledger has it, oldest first."""
    training_s: int
    """Seconds of training of all jobs."""
    billable_s: int
    """Billed seconds of one instance, summed over the jobs."""
    instance_type: str
    """Instance type of the last job."""
    instance_count: int
    """Number of instances of the last job."""
    price_usd_h: float
    """On-demand price of the last job's instance, USD per hour."""
    price_date: dt.date
    """Date of the price in `price_usd_h`."""
    cost_usd: float
    """Cost of all jobs, USD."""
    on_demand_usd: float
    """What all jobs would have cost without spot, USD."""
    saving: float
    """Share that spot saved: 1 - billable_s / training_s; weighted by price if the jobs' prices differ."""
    interruptions: int
    """Number of spot interruptions."""
    lost_s: float
    """Seconds of training that interruptions lost."""
    capacity_s: float
    """Seconds of waiting for instances: before the first ones, and after each interruption."""
    first_capacity_s: float
    """Seconds from the first job's creation to its first instances."""
    queue_s: float
    """Seconds that all jobs together waited in queues of AWS Batch; 0 if they had no queue."""


def run(spec: ChargeSpec) -> ChargeResult:
    """Write a row for each job into the ledger, and add up what the jobs cost.

    Raises:
        DataError: a job has not ended, or its instance type has no known price. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
        ConflictError: other writers kept changing the ledger. A retry can help.
    """
    from pipelines.costs.charge_jobs import JobPurpose, charge_jobs
    from pipelines.costs.payers import add_settings

    charges = charge_jobs(spec.jobs, add_settings(JobPurpose(**spec.model_dump(exclude={"jobs"}))))
    return ChargeResult(jobs=charges, **sum_charges(charges))
