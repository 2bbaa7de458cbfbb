"""Which machine an attempt runs on: a function of how the attempt before it ended, as SageMaker tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowFailException

OnNoCapacity = Literal["fail", "next_instance_type", "on_demand"]
"""What follows a job that got no machine within max_wait_s."""
POLICIES: tuple[OnNoCapacity, ...] = ("fail", "next_instance_type", "on_demand")
NO_CAPACITY = "CapacityError"
"""SageMaker's word for machines on demand that it does not have."""


@dataclass(frozen=True)
class Machine:
    """What a job runs on, and for how long. Sizes in GB, times in seconds."""

    instance_type: str
    instance_count: int
    volume_size_gb: int
    spot: bool
    max_run_s: int
    max_wait_s: int

    def __post_init__(self) -> None:
        """Refuses what SageMaker would refuse."""
        if self.spot and self.max_wait_s < self.max_run_s:
            raise AirflowFailException(f"max_wait_s ({self.max_wait_s}) must be at least max_run_s ({self.max_run_s}).")

    @property
    def label(self) -> str:
        """Type and market, for people and for the record of a switch."""
        return f"{self.instance_type} {'spot' if self.spot else 'on demand'}"

    def request(self) -> dict[str, Any]:
        """Its part of the request to CreateTrainingJob."""
        waiting = {"MaxWaitTimeInSeconds": self.max_wait_s} if self.spot else {}
        return {
            "EnableManagedSpotTraining": self.spot,
            "StoppingCondition": {"MaxRuntimeInSeconds": self.max_run_s, **waiting},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_size_gb,
            },
        }


def ladder(first: Machine, types: Sequence[str], on_no_capacity: OnNoCapacity) -> list[Machine]:
    """The machines to try in turn: each type, and last, where the policy says so, the first type on demand."""
    rungs = [replace(first, instance_type=one) for one in types]
    last = [replace(first, instance_type=types[0], spot=False)] if on_no_capacity == "on_demand" and first.spot else []
    return rungs + last


def label_of(job: Mapping[str, Any]) -> str:
    """`Machine.label` of a described job."""
    spot = job.get("EnableManagedSpotTraining", False)
    return f"{job['ResourceConfig'].get('InstanceType', '')} {'spot' if spot else 'on demand'}"


def had_no_capacity(job: Mapping[str, Any]) -> bool:
    """Whether a job ended for want of a machine: it waited too long, at its start or after an interruption."""
    waited = job.get("SecondaryStatus") == "MaxWaitTimeExceeded"
    return waited or str(job.get("FailureReason", "")).startswith(NO_CAPACITY)


def following(rungs: Sequence[Machine], last: Mapping[str, Any] | None) -> Machine | None:
    """The machine for the attempt after `last`; None where the ladder has no more.

    The rung of `last`, unless that one got no machine: then the next. The first where there was no attempt, or one on
    a machine that the task does not name any more.
    """
    place = next((at for at, one in enumerate(rungs) if last and one.label == label_of(last)), None)
    if last is None or place is None:
        return rungs[0]
    place += had_no_capacity(last)
    return rungs[place] if place < len(rungs) else None


def switches(attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Each change of machine between two attempts: from, to, reason, and the job that had no capacity."""
    return [
        {
            "from": label_of(before),
            "to": label_of(after),
            "reason": str(before.get("FailureReason") or before.get("SecondaryStatus", "")),
            "job": str(before["TrainingJobName"]),
        }
        for before, after in pairwise(attempts)
        if label_of(before) != label_of(after)
    ]
