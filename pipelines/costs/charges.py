"""Compute the cost of a SageMaker job, the saving by spot, and the time lost to interruptions.

The figures come from SageMaker's description of the job, its log, the price of its instance type and, for the time in
a queue, AWS Batch. Costs are those of the instances, without disks and S3 requests. pydantic is the only large import.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from pipelines.costs.predictions import Prediction
from pipelines.errors import DataError

FINAL_STATUSES = ("Completed", "Failed", "Stopped")
"""Statuses of a job that has ended."""
WORKING_STATUSES = ("Downloading", "Training")
"""Secondary statuses in which a job has its instances."""
INTERRUPTED = "Interrupted"
"""Secondary status of a spot interruption."""
HOUR_S = 3_600
DIGITS = 6
"""Decimals of an amount in USD: six, because a second of the cheapest instance costs 0.000014 USD."""

Resource = Literal["cpu", "memory", "disk", "gpu", "gpu_memory"]
"""Resource of an instance whose utilization CloudWatch reports. Names of the metrics: `usage.resource_metrics`."""
# SageMaker and the log give an empty string for a time that is not known.
_OptionalTime = Annotated[AwareDatetime | None, BeforeValidator(lambda value: value or None)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Transition(_Record):
    """One entry of a job's SecondaryStatusTransitions."""

    status: str
    """SageMaker's status: Starting, Downloading, Training, Interrupted, Uploading ..."""
    start: AwareDatetime
    """Time at which the status began."""
    end: _OptionalTime = None
    """Time at which the status ended; none while it lasts."""


class RestoredCheckpoint(_Record):
    """One start of the training script, and the checkpoint that it restored, if there was one."""

    at: AwareDatetime
    """Time at which the script restored a checkpoint, or started without one."""
    saved_at: _OptionalTime = None
    """Time at which the checkpoint was saved; none if the script started without a checkpoint."""


class ResourceUse(_Record):
    """What a job used of a resource, over all of its instances."""

    peak: float = Field(ge=0, allow_inf_nan=False)
    """Highest value, percent."""
    mean: float = Field(ge=0, allow_inf_nan=False)
    """Mean value, percent."""


class Job(Prediction):
    """An ended job of any kind, as SageMaker's Describe call, its log, CloudWatch and AWS Batch describe it."""

    name: str
    """Name of the job."""
    arn: str
    """ARN of the job."""
    status: str
    """Completed, Failed or Stopped."""
    secondary_status: str = ""
    """SageMaker's more precise status, such as MaxWaitTimeExceeded."""
    instance_type: str
    """Instance type, such as ml.m5.large."""
    instance_count: int = Field(ge=1)
    """Number of instances."""
    spot: bool
    """Whether the job ran on managed spot."""
    created: AwareDatetime
    """Time at which the job was created."""
    started: _OptionalTime = None
    """Time at which the job got its first instance; none if it never got one."""
    ended: _OptionalTime = None
    """Time at which the job ended; none if it is not known."""
    training_s: int = Field(ge=0)
    """SageMaker's TrainingTimeInSeconds."""
    billable_s: int = Field(ge=0)
    """SageMaker's BillableTimeInSeconds: billed seconds of one instance."""
    transitions: list[Transition] = Field(default_factory=list)
    """Status transitions, in any order."""
    restored: list[RestoredCheckpoint] = Field(default_factory=list)
    """One entry for each start of the training script, in any order."""
    failure_reason: str | None = None
    """SageMaker's reason, if the job failed."""
    usage: dict[Resource, ResourceUse] = Field(default_factory=dict)
    """Maps each resource to its utilization, as CloudWatch reports it: 100 percent is one core, one GPU, all memory of
    the instance, or its whole disk. The utilization of a missing resource is not known."""
    queue_s: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Seconds for which the job waited in a queue of AWS Batch before it was created; none if it had no queue."""
    data_wait_share: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    """Share of the training time that was spent waiting for data, as its script reported it; none without a report."""


class Price(_Record):
    """The on-demand price of an instance type."""

    usd_h: float = Field(gt=0, allow_inf_nan=False)
    """USD per hour and instance."""
    date: dt.date
    """Date of the price."""
    source: str
    """Source of the price."""


class Charge(_Record):
    """The cost of one job."""

    name: str
    """Name of the job."""
    arn: str
    """ARN of the job."""
    status: str
    """Completed, Failed or Stopped."""
    instance_type: str
    """Instance type, such as ml.m5.large."""
    instance_count: int
    """Number of instances."""
    spot: bool
    """Whether the job ran on managed spot."""
    training_s: int
    """Seconds of training."""
    billable_s: int
    """Billed seconds of one instance."""
    price_usd_h: float
    """On-demand price, USD per hour and instance."""
    price_date: dt.date
    """Date of the price."""
    cost_usd: float
    """billable_s x instance_count x price, USD."""
    on_demand_usd: float
    """training_s x instance_count x price, USD: the cost without spot."""
    saving: float
    """Share of the on-demand cost that spot saved: 1 - billable_s / training_s; 0 if the job never trained."""
    interruptions: int
    """Number of spot interruptions."""
    lost_s: float
    """Seconds of training that interruptions lost. A second that several interruptions lost is counted once."""
    capacity_s: float
    """Seconds of waiting for instances: before the first ones, and after each interruption."""
    first_capacity_s: float
    """Seconds of waiting for the first instances."""
    queue_s: float | None
    """Seconds in a queue of AWS Batch, before the job was created; none if it had no queue."""


def compute_charge(job: Job, price: Price) -> Charge:
    """Compute what an ended job cost.

    Args:
        job: the ended job.
        price: on-demand price of its instance type.

    Raises:
        DataError: `job` describes a job that has not ended. A retry cannot help: read its description again after its
            end.
    """
    if job.status not in FINAL_STATUSES:
        raise DataError(f"{job.name} is {job.status}: only an ended job can be charged.", "Wait until it has ended.")
    identity = job.model_dump(include={"name", "arn", "status", "instance_type", "instance_count", "spot"})
    usd_per_s, waits = job.instance_count * price.usd_h / HOUR_S, compute_capacity_waits_s(job)
    return Charge(
        **identity,
        training_s=job.training_s,
        billable_s=job.billable_s,
        price_usd_h=price.usd_h,
        price_date=price.date,
        cost_usd=round(job.billable_s * usd_per_s, DIGITS),
        on_demand_usd=round(job.training_s * usd_per_s, DIGITS),
        saving=1 - job.billable_s / job.training_s if job.training_s else 0.0,
        interruptions=sum(transition.status == INTERRUPTED for transition in job.transitions),
        lost_s=compute_lost_s(job),
        capacity_s=round(sum(waits), 3),
        first_capacity_s=round(waits[0], 3) if waits else 0.0,
        queue_s=job.queue_s,
    )


def compute_lost_s(job: Job) -> float:
    """Compute the seconds of training that interruptions lost.

    After an interruption, the job resumes from a checkpoint. The training between the save of this checkpoint and the
    interruption is lost. If the job does not resume, or resumes without a checkpoint, all training so far is lost. A
    second that several interruptions lost is counted once.
    """
    training_spans = _list_training_spans(job)
    interruption_times = [transition.start for transition in _sort_transitions(job) if transition.status == INTERRUPTED]
    lost_spans = []
    for interruption, next_interruption in zip_longest(interruption_times, interruption_times[1:]):
        saved_at = _find_save_time(job, interruption, next_interruption)
        lost_spans += [(max(begin, saved_at or begin), min(end, interruption)) for begin, end in training_spans]
    return round(_measure_union_s(lost_spans), 3)


def compute_capacity_waits_s(job: Job) -> list[float]:
    """Return the seconds of each wait for instances: first after the job's creation, then after each interruption."""
    waits: list[float] = []
    waiting_since: dt.datetime | None = job.created
    for transition in _sort_transitions(job):
        if transition.status in WORKING_STATUSES and waiting_since:
            waits.append(_compute_span_s(waiting_since, transition.start))
            waiting_since = None
        elif transition.status == INTERRUPTED:
            waiting_since = waiting_since or transition.start
    if waiting_since and job.ended:  # the job ended before it got instances
        waits.append(_compute_span_s(waiting_since, job.ended))
    return waits


def sum_charges(charges: Sequence[Charge]) -> dict[str, Any]:
    """Sum the charges of the jobs of one training. The sum has the price and the instances of the last job.

    Args:
        charges: charges of one or more jobs, oldest first.
    """
    last_charge, on_demand_usd = charges[-1], sum(charge.on_demand_usd for charge in charges)
    sums = {
        name: sum(getattr(charge, name) for charge in charges)
        for name in ("training_s", "billable_s", "cost_usd", "interruptions", "lost_s", "capacity_s")
    }
    # Attempts may have run on different instance types, so the saving is computed from costs, not from seconds.
    saving = 1 - sums["cost_usd"] / on_demand_usd if on_demand_usd else 0.0
    saving = last_charge.saving if len(charges) == 1 else saving
    return {
        **{name: round(value, DIGITS) for name, value in sums.items()},
        "on_demand_usd": round(on_demand_usd, DIGITS),
        "saving": saving,
        "first_capacity_s": charges[0].first_capacity_s,
        "queue_s": round(sum(charge.queue_s or 0.0 for charge in charges), DIGITS),
        **last_charge.model_dump(include={"instance_type", "instance_count", "price_usd_h", "price_date"}),
    }


def compute_worst_case_usd(price_usd_h: float, instance_count: int, max_run_s: int) -> float:
    """Compute the highest cost that a job can have, USD: the maximum run time at the on-demand price."""
    return round(price_usd_h * instance_count * max_run_s / HOUR_S, DIGITS)


def format_usd(amount: float) -> str:
    """Format an amount in USD: two decimals, or four below 1 USD."""
    return f"{amount:,.2f} USD" if abs(amount) >= 1 or not amount else f"{amount:.4f} USD"


def _sort_transitions(job: Job) -> list[Transition]:
    return sorted(job.transitions, key=lambda transition: transition.start)


def _list_training_spans(job: Job) -> list[tuple[dt.datetime, dt.datetime]]:
    """List the spans of time in which the job trained, each with its beginning and end.

    A span ends when the next transition starts, because the end that SageMaker reports may be earlier.
    """
    transitions = _sort_transitions(job)
    next_starts = [transition.start for transition in transitions[1:]]
    return [
        (transition.start, next_start or transition.end or job.ended or transition.start)
        for transition, next_start in zip_longest(transitions, next_starts)
        if transition.status == "Training"
    ]


def _find_save_time(job: Job, interruption: dt.datetime, next_interruption: dt.datetime | None) -> dt.datetime | None:
    """Return the save time of the checkpoint that the job restored after an interruption; None if it restored none.

    Only the first start of the script after this interruption and before the next one is examined.
    """
    for checkpoint in sorted(job.restored, key=lambda restored: restored.at):
        if checkpoint.at >= interruption and (next_interruption is None or checkpoint.at < next_interruption):
            return checkpoint.saved_at
    return None


def _measure_union_s(spans: Iterable[tuple[dt.datetime, dt.datetime]]) -> float:
    """Compute the seconds that at least one span covers."""
    covered_s, last_end = 0.0, None
    for begin, end in sorted(spans):
        start = max(begin, last_end) if last_end else begin
        if end > start:
            covered_s += (end - start).total_seconds()
            last_end = end
    return covered_s


def _compute_span_s(begin: dt.datetime, end: dt.datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
