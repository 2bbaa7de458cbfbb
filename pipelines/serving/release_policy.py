"""Define how a model is served by a SageMaker endpoint, and how a new version is released: section `serving`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pipelines.contract import DEPENDS_ON_OTHER_FIELDS, Spec
from pipelines.serving.endpoint_resources import MAX_RELEASE_S, compute_waits_s

MIN_LINEAR_PERCENT = 10
"""SageMaker's smallest step of a linear release, percent of the instances."""
WHOLE_MINUTE_S = 60
RELEASE_AT_ONCE: Mapping[str, Any] = {"traffic": "all_at_once", "rollback": False, "wait_s": 0, "bake_s": 0}
"""Values of a release at once, without alarms. A rollback uses these values, and so does a serverless endpoint, because
SageMaker moves traffic step by step, or back after an alarm, only between instances."""
MEMORY_STEP_MB = 1_024
HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800


class ReleasePolicy(Spec):
    """Instances, traffic, alarms and data capture of an endpoint. Times and percentages have SageMaker's limits."""

    prerequisites: ClassVar[Mapping[str, str]] = {
        "serverless_max_concurrency": "serverless_memory_mb",
        "serverless_load": "serverless_memory_mb",
    }

    instance_type: str = Field(default="ml.m5.large", pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")
    """Instance type of the endpoint, such as ml.m5.large."""
    instance_count: int = Field(default=1, ge=1)
    """Number of instances."""
    serverless_memory_mb: int | None = Field(default=None, ge=1_024, le=6_144)
    """Memory of a serverless endpoint, MB: 1024 to 6144 in steps of 1024; null: the endpoint has instances. A
    serverless endpoint is released at once, without rollback by alarms, without a shadow and without captured
    requests."""
    serverless_max_concurrency: int = Field(default=5, ge=1, le=200)
    """Largest number of requests that a serverless endpoint answers at a time; further requests are refused."""
    serverless_load: float = Field(default=1.0, gt=0, le=200)
    """Number of requests that a serverless endpoint works on at a time, on average over day and night. Only the
    forecast of its costs uses it."""
    traffic: Literal["all_at_once", "canary", "linear"] = "canary"
    """How traffic moves from the version that serves to the new one: at once; first `step_percent` of it, then the
    rest; or in steps of `step_percent`."""
    step_percent: int = Field(default=10, ge=1, le=50)
    """Size of the canary or of a linear step, percent of the instances; a linear step has at least 10 percent."""
    wait_s: int = Field(default=600, ge=0, le=3_600)
    """Seconds after the canary, or after each linear step, in which the alarms are watched."""
    bake_s: int = Field(default=300, ge=0, le=3_600)
    """Seconds after the last step in which the alarms are watched and the old instances still run."""
    rollback: bool = True
    """Whether an alarm moves the traffic back to the version that served before."""
    error_percent: float | None = Field(default=1.0, gt=0, le=100)
    """An alarm is raised if at least this percentage of the requests of a period get a 5XX error; null: no alarm."""
    error_count: int | None = Field(default=None, ge=1)
    """An alarm is raised if at least this number of requests of a period get a 5XX error; null: no alarm."""
    latency_ms: float | None = Field(default=None, gt=0)
    """An alarm is raised if the model takes at least this time for a request, milliseconds; null: no alarm."""
    latency_statistic: str = Field(default="Average", pattern=r"^(Average|p\d{1,2}(\.\d{1,2})?)$")
    """Statistic of `latency_ms`: Average, or a percentile such as p99."""
    alarm_period_s: int = Field(default=60, ge=60, le=3_600)
    """Length of an alarm's period, seconds: whole minutes."""
    alarm_periods: int = Field(default=1, ge=1, le=60)
    """Number of consecutive periods in which a limit must be reached before its alarm is raised."""
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

    @model_validator(mode="after")
    def _check_release(self) -> Self:
        """Refuse a release that takes too long, and alarms that CloudWatch refuses or that no bad canary could raise.

        The command `check` ignores these errors, as it ignores those of `prerequisites`: params.yaml may have only some
        of the fields.
        """
        if problem := self._find_release_problem():
            raise PydanticCustomError(DEPENDS_ON_OTHER_FIELDS, "{problem}", {"problem": problem})
        return self

    def _find_release_problem(self) -> str:
        """Return why the release or its alarms cannot work; empty if they can."""
        range_s, limit_s = self.alarm_period_s * self.alarm_periods, WEEK_S if self.alarm_period_s >= HOUR_S else DAY_S
        if range_s > limit_s:
            return f"alarm_period_s x alarm_periods is {range_s} s: CloudWatch's alarms cover at most {limit_s} s"
        if self.serverless_memory_mb is not None:
            return ""
        if (waits_s := compute_waits_s(self.model_dump())) > MAX_RELEASE_S:
            return f"wait_s of all steps and bake_s take {waits_s} s: SageMaker rolls back after {MAX_RELEASE_S} s"
        has_other_alarm = self.error_count is not None or self.latency_ms is not None
        if self.traffic == "all_at_once" or not self.rollback or self.error_percent is None or has_other_alarm:
            return ""
        if self.error_percent < self.step_percent:
            return ""
        return (
            f"error_percent {self.error_percent:g} must be below step_percent {self.step_percent}, or error_count must "
            f"be set: a broken first step makes only {self.step_percent} % of all answers fail"
        )

    @model_validator(mode="after")
    def _check_serverless(self) -> Self:
        if self.serverless_memory_mb is None:
            return self
        if self.serverless_memory_mb % MEMORY_STEP_MB:
            raise ValueError(
                f"serverless_memory_mb must be 1024, 2048, 3072, 4096, 5120 or 6144, not {self.serverless_memory_mb}"
            )
        if self.serverless_load > self.serverless_max_concurrency:
            raise ValueError("serverless_load must not be larger than serverless_max_concurrency")
        unsupported_settings = {
            f"traffic {self.traffic}": "traffic" in self.model_fields_set
            and self.traffic != RELEASE_AT_ONCE["traffic"],
            "rollback by alarms": "rollback" in self.model_fields_set and self.rollback,
            "capture_percent": self.capture_percent > 0,
            "shadow_minutes": self.shadow_minutes > 0,
        }
        if names := [name for name, is_set in unsupported_settings.items() if is_set]:
            raise ValueError(f"a serverless endpoint of SageMaker cannot have {', '.join(names)}")
        return self

    def describe_machine(self) -> dict[str, Any]:
        """Return the fields that decide the endpoint's cost: its instances, or its serverless memory and load."""
        is_serverless = self.serverless_memory_mb is not None
        names = {"serverless_memory_mb", "serverless_load"} if is_serverless else {"instance_type", "instance_count"}
        return self.model_dump(include=names)

    def build_release(self) -> dict[str, Any]:
        """Return the fields of the policy by name. A serverless endpoint has the values of `RELEASE_AT_ONCE`."""
        values = self.model_dump(include=set(ReleasePolicy.model_fields))
        return values if self.serverless_memory_mb is None else {**values, **RELEASE_AT_ONCE}
