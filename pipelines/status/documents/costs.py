"""Define the costs of jobs and endpoints: file costs.json."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from pipelines.status.documents.json_object import Document, JsonObject


class Use(JsonObject):
    """The utilization of a resource by a job, over all of its instances."""

    mean: float
    """Mean, percent."""
    peak: float
    """Highest value, percent."""


class JobUse(JsonObject):
    """The utilization of a job's instances, from CloudWatch. A field is null if CloudWatch has no value."""

    cores: int | None
    """Number of vCPUs of an instance; null if it is not known."""
    cpu: Use | None
    """CPU; 100 percent is one core."""
    memory: Use | None
    """Memory; 100 percent is the memory of an instance."""
    disk: Use | None
    """Disk; 100 percent is the disk of an instance."""
    gpu: Use | None
    """GPU; 100 percent is one GPU."""
    gpu_memory: Use | None
    """Memory of the GPU; 100 percent is the memory of one GPU."""


class JobCost(JsonObject):
    """A job that has ended."""

    name: str
    """Name of the job in SageMaker."""
    model: str
    """Model; empty if there is none."""
    project: str
    """Project that pays."""
    run: str
    """DAG run, DAG/RUN."""
    instance_type: str
    """Instance type."""
    instance_count: int
    """Number of instances."""
    spot: bool
    """Whether it ran on spot instances."""
    status: str
    """State in which it ended."""
    failure_reason: str
    """Why it failed; empty if it did not."""
    created: dt.datetime
    """When it was created, UTC."""
    ended: dt.datetime | None
    """When it ended, UTC."""
    training_s: float
    """Seconds in which the job worked."""
    billable_s: float
    """Seconds of one instance that are billed."""
    waiting_s: float
    """Seconds in which the job waited for instances."""
    cost_usd: float
    """Cost, USD."""
    on_demand_usd: float
    """Cost of `training_s` seconds of all instances on demand, USD."""
    interruptions: int
    """Number of interruptions by spot."""
    lost_s: float
    """Seconds of training that interruptions lost."""
    use: JobUse | None = None
    """How much of its instances the job used; null in a document of an earlier version of Leeway."""


class MonthCost(JsonObject):
    """Costs of a model in a month."""

    month: str
    """Month, YYYY-MM."""
    model: str
    """Model; empty for costs without a model."""
    project: str
    """Project that pays."""
    jobs_usd: float
    """Cost of the jobs that have ended, USD."""
    endpoints_usd: float
    """Cost of the endpoints as far as they were metered, USD."""
    saved_usd: float
    """Amount that spot instances and scaling to zero saved, USD."""


class PayerCost(JsonObject):
    """Costs of jobs and endpoints of one payer in one month. A field is empty if it is not known."""

    month: str
    """Month, YYYY-MM."""
    team: str
    """Team."""
    project: str
    """Project."""
    model: str
    """Model."""
    dataset: str
    """Dataset."""
    environment: str
    """Environment, such as production."""
    user: str
    """Person for whom the jobs ran."""
    cost_usd: float
    """Cost, USD."""
    idle_usd: float
    """Cost of the unused part of the instances, as far as their utilization is known, USD."""
    reserved_usd: float | None = None
    """Part of the cost that the stated commitments cover, at on-demand prices, USD; null if no commitment is stated, if
    no price with a savings plan is known, or in a document of an earlier version of Leeway."""


class EndpointCost(JsonObject):
    """An endpoint that runs, according to the lake."""

    endpoint: str
    """Name of the endpoint."""
    model: str
    """Model that it serves."""
    machine: str
    """Its machines, in words."""
    usd_h: float
    """Cost of an hour, USD."""
    since: dt.datetime
    """End of its last metering, or its start if it was not metered yet, UTC."""


class ProjectBudget(JsonObject):
    """A project, and its budget of a month."""

    project: str
    """Name of the project; empty: jobs without one."""
    month_usd: float
    """Spent in the current month, USD."""
    running_usd: float
    """Expected cost of its running endpoints until the end of the month, USD."""
    budget_usd: float | None
    """Budget of the month, USD; null if there is none."""


class CostDocument(Document):
    """File costs.json: jobs, and what they and the endpoints cost."""

    month: str
    """Current month, YYYY-MM."""
    jobs: list[JobCost]
    """The last jobs, newest first."""
    months: list[MonthCost]
    """Costs of the last 12 months by month and model."""
    endpoints: list[EndpointCost]
    """Endpoints that run."""
    budgets: list[ProjectBudget]
    """Projects with costs or a budget."""
    price_dates: str
    """Dates of the prices, in words; empty if there are no costs."""
    advice: list[str]
    """Sentences about costs that could be avoided, and about endpoints whose size is not judged; may be empty."""
    payers: list[PayerCost] = Field(default_factory=list)
    """Costs of the last 12 months by month and who pays; empty in a document of an earlier version of Leeway."""
    unused_commitment_usd: dict[str, float] | None = None
    """Maps each month, YYYY-MM, to the part of the stated commitments that was not used, up to yesterday, USD; null if
    no commitment is stated, or in a document of an earlier version of Leeway."""
    anomalies: list[str] = Field(default_factory=list)
    """Sentences about the days of the last four weeks on which a project cost far more than usual."""
