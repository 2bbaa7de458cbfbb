"""Define how a model is served by a SageMaker endpoint, and how a new version is released: section `serving`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract import Spec

MIN_LINEAR_PERCENT = 10
"""SageMaker's smallest step of a linear release, percent of the instances."""
WHOLE_MINUTE_S = 60
AT_ONCE: Mapping[str, Any] = {"traffic": "all_at_once", "rollback": False, "wait_s": 0, "bake_s": 0}
"""Values by which a version is released at once, whatever the alarms say: those of a rollback."""


class ReleasePolicy(Spec):
    """Instances, traffic, alarms and data capture of an endpoint. Times and percentages have SageMaker's limits."""

    instance_type: str = Field(default="ml.m5.large", pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")
    """Instance type of the endpoint, such as ml.m5.large."""
    instance_count: int = Field(default=1, ge=1)
    """Number of instances."""
    traffic: Literal["all_at_once", "canary", "linear"] = "canary"
    """How traffic moves from the version that serves to the new one: at once; first `step_percent` of it, then the
    rest; or in steps of `step_percent`."""
    step_percent: int = Field(default=10, ge=1, le=50)
    """Size of the canary or of a linear step, percent of the instances; a linear step has at least 10."""
    wait_s: int = Field(default=600, ge=0, le=3_600)
    """Seconds after the canary, or after each linear step, in which the alarms are watched."""
    bake_s: int = Field(default=300, ge=0, le=3_600)
    """Seconds after the last step in which the alarms are watched and the old instances still run."""
    rollback: bool = True
    """Whether an alarm moves the traffic back to the version that served before."""
    error_percent: float | None = Field(default=1.0, gt=0, le=100)
    """An alarm is raised if this share of a period's requests, or more, is answered with a 5XX error; null: none is."""
    error_count: int | None = Field(default=None, ge=1)
    """An alarm is raised if as many requests of a period, or more, are answered with a 5XX error; null: none is."""
    latency_ms: float | None = Field(default=None, gt=0)
    """An alarm is raised if the model takes this time for a request, or longer, milliseconds; null: none is."""
    latency_statistic: str = Field(default="Average", pattern=r"^(Average|p\d{1,2}(\.\d{1,2})?)$")
    """Statistic of `latency_ms`: Average, or a percentile such as p99."""
    alarm_period_s: int = Field(default=60, ge=60, le=3_600)
    """Length of an alarm's period, seconds: whole minutes."""
    alarm_periods: int = Field(default=1, ge=1, le=60)
    """Number of consecutive periods that raise an alarm."""
    capture_percent: int = Field(default=0, ge=0, le=100)
    """Share of the requests that is stored in S3 with their answers, percent; 0: none."""

    shadow_minutes: float = Field(default=0, ge=0, le=10_080)
    """Minutes for which a new version first runs as a shadow variant: it gets copies of the requests, and section
    `shadow` judges it before it is released; 0: no shadow. A shadow doubles the instances."""
    shadow_requests: int = Field(default=0, ge=0)
    """The shadow ends early, as soon as it has answered this number of requests; 0: after `shadow_minutes` only."""

    @model_validator(mode="after")
    def _check_steps_and_periods(self) -> Self:
        if self.traffic == "linear" and self.step_percent < MIN_LINEAR_PERCENT:
            raise ValueError(f"step_percent of a linear release must be 10 to 50, not {self.step_percent}")
        if self.alarm_period_s % WHOLE_MINUTE_S:
            raise ValueError(f"alarm_period_s must be whole minutes, not {self.alarm_period_s} seconds")
        return self
