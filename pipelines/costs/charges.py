"""What a training job cost, what spot saved, and what its interruptions took: from the answer of Describe alone.

Money is for instances: the disks and the S3 requests of a job are not in it. Light on purpose (pydantic only).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from pipelines.errors import DataError

ENDED = ("Completed", "Failed", "Stopped")
"""States of a training job that do not change any more."""
WORKING, INTERRUPTED = ("Downloading", "Training"), "Interrupted"
HOUR_S = 3_600
DIGITS = 6
"""Decimals of an amount in USD: a second of the cheapest instance is 0.000014."""

_Moment = Annotated[AwareDatetime | None, BeforeValidator(lambda given: given or None)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Transition(_Record):
    """One of a job's SecondaryStatusTransitions."""

    status: str
    """SageMaker's word: Starting, Downloading, Training, Interrupted, Uploading ..."""
    start: AwareDatetime
    """When it began."""
    end: _Moment = None
    """When it ended."""


class Restored(_Record):
    """A checkpoint that the script went on from."""

    at: AwareDatetime
    """When it was restored."""
    saved_at: _Moment = None
    """When it was saved; none where the script began anew."""


class Job(_Record):
    """A training or processing job that ended, as Describe and its log tell it."""

    name: str
    """Its name."""
    arn: str
    """Its ARN."""
    status: str
    """Completed, Failed or Stopped."""
    secondary_status: str = ""
    """SageMaker's finer word, such as MaxWaitTimeExceeded."""
    instance_type: str
    """Such as ml.m5.large."""
    instance_count: int = Field(ge=1)
    """Instances."""
    spot: bool
    """Whether it ran on managed spot."""
    created: AwareDatetime
    """When it was created."""
    started: _Moment = None
    """When it had its first instance; none where it never had one."""
    ended: _Moment = None
    """When it ended."""
    training_s: int = Field(ge=0)
    """TrainingTimeInSeconds."""
    billable_s: int = Field(ge=0)
    """BillableTimeInSeconds, of one instance."""
    transitions: list[Transition] = Field(default_factory=list)
    """In any order."""
    restored: list[Restored] = Field(default_factory=list)
    """In any order."""
    failure_reason: str | None = None
    """SageMaker's, where it failed."""


class Price(_Record):
    """What an instance costs on demand."""

    usd_h: float = Field(gt=0, allow_inf_nan=False)
    """USD an hour and instance."""
    date: dt.date
    """As of when."""
    source: str
    """Where it was read."""


class Charge(_Record):
    """What one job cost."""

    name: str
    """The job."""
    arn: str
    """Its ARN."""
    status: str
    """Completed, Failed or Stopped."""
    instance_type: str
    """Such as ml.m5.large."""
    instance_count: int
    """Instances."""
    spot: bool
    """Whether it ran on managed spot."""
    training_s: int
    """Seconds of training."""
    billable_s: int
    """Seconds of it that are billed, of one instance."""
    price_usd_h: float
    """On-demand price, USD an hour and instance."""
    price_date: dt.date
    """As of when."""
    cost_usd: float
    """billable_s x instance_count x price."""
    on_demand_usd: float
    """training_s x instance_count x price: the same without spot."""
    saving: float
    """1 - billable_s / training_s; 0 where it never trained."""
    interruptions: int
    """Times that spot took the instances away."""
    lost_s: float
    """Seconds of training that interruptions undid, each counted once."""
    capacity_s: float
    """Seconds without instances: before the first ones, and after each interruption."""
    first_capacity_s: float
    """Seconds before the first ones."""


def charge(job: Job, price: Price) -> Charge:
    """What `job` cost at `price`.

    Raises:
        DataError: the job has not ended: what it costs is not known yet.
    """
    if job.status not in ENDED:
        raise DataError(f"{job.name} is {job.status}: only a job that ended is charged.", "Wait for its end.")
    kept = job.model_dump(include={"name", "arn", "status", "instance_type", "instance_count", "spot"})
    hourly, waits = job.instance_count * price.usd_h / HOUR_S, capacity_waits_s(job)
    return Charge(
        **kept,
        training_s=job.training_s,
        billable_s=job.billable_s,
        price_usd_h=price.usd_h,
        price_date=price.date,
        cost_usd=round(job.billable_s * hourly, DIGITS),
        on_demand_usd=round(job.training_s * hourly, DIGITS),
        saving=1 - job.billable_s / job.training_s if job.training_s else 0.0,
        interruptions=sum(one.status == INTERRUPTED for one in job.transitions),
        lost_s=lost_s(job),
        capacity_s=round(sum(waits), 3),
        first_capacity_s=round(waits[0], 3) if waits else 0.0,
    )


def lost_s(job: Job) -> float:
    """Seconds of training between each interruption and the save of the checkpoint that was restored after it.

    All of the training so far where none was. A second that two interruptions undid counts once.
    """
    ordered, work = _in_order(job), _training(job)
    stops = [one.start for one in ordered if one.status == INTERRUPTED]
    undone = []
    for stop, following in zip_longest(stops, stops[1:]):
        saved = _saved_before(job, stop, following)
        undone += [(max(begin, saved or begin), min(end, stop)) for begin, end in work]
    return round(_covered_s(undone), 3)


def capacity_waits_s(job: Job) -> list[float]:
    """Each wait for instances, seconds: the first from the job's creation, the others from an interruption."""
    waits: list[float] = []
    since: dt.datetime | None = job.created
    for one in _in_order(job):
        if one.status in WORKING and since:
            waits.append(_seconds(since, one.start))
            since = None
        elif one.status == INTERRUPTED:
            since = since or one.start
    if since and job.ended:  # it never had any again
        waits.append(_seconds(since, job.ended))
    return waits


def totals(charges: Sequence[Charge]) -> dict[str, Any]:
    """The figures of one training's jobs, added up; price and instances are those of the last."""
    last, on_demand = charges[-1], sum(one.on_demand_usd for one in charges)
    added = {
        name: sum(getattr(one, name) for one in charges)
        for name in ("training_s", "billable_s", "cost_usd", "interruptions", "lost_s", "capacity_s")
    }
    # Attempts may have had other instances at other prices: then seconds do not add up to money.
    saving = last.saving if len(charges) == 1 else 1 - added["cost_usd"] / on_demand if on_demand else 0.0
    return {
        **{name: round(value, DIGITS) for name, value in added.items()},
        "on_demand_usd": round(on_demand, DIGITS),
        "saving": saving,
        "first_capacity_s": charges[0].first_capacity_s,
        **last.model_dump(include={"instance_type", "instance_count", "price_usd_h", "price_date"}),
    }


def worst_case_usd(price_usd_h: float, instance_count: int, max_run_s: int) -> float:
    """What a job costs at most: all of its longest run, on demand."""
    return round(price_usd_h * instance_count * max_run_s / HOUR_S, DIGITS)


def usd(amount: float) -> str:
    """The amount for people: cents, and four decimals below one USD."""
    return f"{amount:,.2f} USD" if abs(amount) >= 1 or not amount else f"{amount:.4f} USD"


def _in_order(job: Job) -> list[Transition]:
    return sorted(job.transitions, key=lambda one: one.start)


def _training(job: Job) -> list[tuple[dt.datetime, dt.datetime]]:
    """The spans of training. What SageMaker says next ends one: between its words it may leave a gap."""
    ordered = _in_order(job)
    nexts = [one.start for one in ordered[1:]]
    return [
        (one.start, following or one.end or job.ended or one.start)
        for one, following in zip_longest(ordered, nexts)
        if one.status == "Training"
    ]


def _saved_before(job: Job, stop: dt.datetime, following: dt.datetime | None) -> dt.datetime | None:
    """When the checkpoint was saved that was restored first after an interruption, and before the following one."""
    for one in sorted(job.restored, key=lambda restored: restored.at):
        if one.at >= stop and (following is None or one.at < following):
            return one.saved_at
    return None


def _covered_s(spans: Iterable[tuple[dt.datetime, dt.datetime]]) -> float:
    """Seconds that at least one span covers."""
    covered, reached = 0.0, None
    for begin, end in sorted(spans):
        begin = max(begin, reached) if reached else begin  # noqa: PLW2901
        if end > begin:
            covered += (end - begin).total_seconds()
            reached = end
    return covered


def _seconds(begin: dt.datetime, end: dt.datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
