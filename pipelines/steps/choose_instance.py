"""Choose the instance type of a training among those that are allowed: the cheapest that is within all limits.

The choice depends on the time and the utilization of past jobs of the model, or on the size of a language model.
Nothing is started.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.system.log import log


class ChooseInstanceSpec(Spec):
    """A training that is about to start, and what it may run on."""

    model_field: ClassVar[str] = ""  # a job may train a model that has no parameters in this project

    instance_types: list[str] = Field(min_length=1)
    """Types that are allowed, or patterns such as ml.m5.*. If nothing is known about the training, the first one is
    used."""
    region: str
    """AWS region in which the training runs."""
    instance_count: int = Field(1, ge=1)
    """Number of instances."""
    spot: bool = True
    """Whether the training runs on managed spot."""
    max_run_s: int | None = Field(None, ge=1)
    """Seconds of training after which the job is stopped; none: after 28 days, SageMaker's limit."""
    max_wait_s: int | None = Field(None, ge=1)
    """Seconds from the creation of a spot job after which it is stopped; none: no limit."""
    deadline: str = ""
    """Latest end of the training: a duration such as 24h, a day, or a time in UTC; empty: no deadline."""
    budget_usd: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Highest cost, USD; none: no limit. With `max_run_s`, a job that runs this long must not cost more."""
    project: str = ""
    """Project that pays; empty: the project in section `budget` of params.yaml. What is left of the
    `month_usd` of that section limits the cost of a job that runs for `max_run_s`, too."""
    model: str = ""
    """Model that is trained. Its past jobs give the size of the training."""
    dag_id: str = ""
    """DAG of the training. If `model` is empty, the past jobs of `task_id` in it give the size of the training."""
    task_id: str = ""
    """Task of the training in this DAG."""
    workload: dict[str, Any] = Field(default_factory=dict)
    """Size of a language model, in place of past jobs: params, tokens; method, precision, sequence, optimizer."""
    input_bytes: int | None = Field(None, ge=0)
    """Bytes of the data of the training, by which its time is predicted from past jobs; none: as many as
    the newest past job had."""


class ChooseInstanceResult(Result):
    """The chosen instance type, and why."""

    instance_type: str
    """The chosen type."""
    instance_types: list[str]
    """The chosen type, then the others that fit the limits, the cheapest first."""
    instance_choice: str
    """Why this type was chosen, in one line."""
    predicted_s: float | None = None
    """Predicted training time, seconds; none if nothing is known about the training."""
    predicted_usd: float | None = None
    """Predicted cost, USD; none if the saving by spot is not known."""
    uncorrected_s: float | None = None
    """Predicted training time, seconds: not corrected by past jobs, and without work that is repeated after
    interruptions."""
    uncorrected_usd: float | None = None
    """Predicted cost, USD: not corrected by past jobs."""
    prediction_basis: str | None = None
    """Origin of the prediction: `formula` (from the size of a language model), `measured` (from past jobs on the same
    machines) or `scaled` (from past jobs on other machines)."""


def run(spec: ChooseInstanceSpec) -> ChooseInstanceResult:
    """Choose the instance type.

    Raises:
        SpecError: an instance type is unknown or retired, or the deadline is past. A retry cannot help.
        DataError: no allowed type fits the limits; the message says what would fit. A retry cannot help.
        ServiceError: prices come from AWS, and AWS does not answer. A retry can help.
    """
    from pipelines.costs.budgets import compute_month_left_usd
    from pipelines.costs.ledger import Ledger
    from pipelines.planning.recommendation.choice.choose import choose
    from pipelines.serving.metering.running import list_running_fleets

    month_left_usd = compute_month_left_usd(spec.project, spec.model, list_running_fleets())
    choice = choose(spec, Ledger.open().read_rows(), dt.datetime.now(dt.UTC), month_left_usd)
    log.info("instance type: %s", choice.instance_choice)
    return ChooseInstanceResult(**choice.to_record())
