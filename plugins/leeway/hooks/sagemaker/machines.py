"""Choose the machine of an attempt: a function of how the attempt before it ended, as SageMaker describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowFailException

OnNoCapacity = Literal["fail", "next_instance_type", "on_demand"]
"""What to do after a job that got no machine within max_wait_s."""
POLICIES: tuple[OnNoCapacity, ...] = ("fail", "next_instance_type", "on_demand")
NO_CAPACITY = "CapacityError"
"""First word of the FailureReason if SageMaker has no on-demand machines."""


@dataclass(frozen=True)
class Machine:
    """The machines of a job, and for how long it may have them. Sizes in GB, times in seconds."""

    instance_type: str
    instance_count: int
    volume_size_gb: int
    spot: bool
    max_run_s: int
    max_wait_s: int

    def __post_init__(self) -> None:
        """Refuse what SageMaker would refuse."""
        if self.spot and self.max_wait_s < self.max_run_s:
            raise AirflowFailException(f"max_wait_s ({self.max_wait_s}) must be at least max_run_s ({self.max_run_s}).")

    @property
    def label(self) -> str:
        """Type and market, for people and for the record of a switch."""
        return f"{self.instance_type} {'spot' if self.spot else 'on demand'}"

    def build_request(self) -> dict[str, Any]:
        """Return the part of the request to CreateTrainingJob that describes the machine."""
        max_wait = {"MaxWaitTimeInSeconds": self.max_wait_s} if self.spot else {}
        return {
            "EnableManagedSpotTraining": self.spot,
            "StoppingCondition": {"MaxRuntimeInSeconds": self.max_run_s, **max_wait},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_size_gb,
            },
        }


def list_machines_to_try(first: Machine, types: Sequence[str], on_no_capacity: OnNoCapacity) -> list[Machine]:
    """Return the machines to try in turn: each type; then, if the policy says so, the first type on demand."""
    machines = [replace(first, instance_type=instance_type) for instance_type in types]
    if on_no_capacity == "on_demand" and first.spot:
        machines.append(replace(first, instance_type=types[0], spot=False))
    return machines


def get_machine_label(job: Mapping[str, Any]) -> str:
    """Return the `Machine.label` of a described job."""
    spot = job.get("EnableManagedSpotTraining", False)
    return f"{job['ResourceConfig'].get('InstanceType', '')} {'spot' if spot else 'on demand'}"


def had_no_capacity(job: Mapping[str, Any]) -> bool:
    """Return whether a job ended because it waited too long for a machine, at its start or after an interruption."""
    waited = job.get("SecondaryStatus") == "MaxWaitTimeExceeded"
    return waited or str(job.get("FailureReason", "")).startswith(NO_CAPACITY)


def choose_next_machine(machines: Sequence[Machine], last: Mapping[str, Any] | None) -> Machine | None:
    """Return the machine for the next attempt; None if no more machines are to be tried.

    It is the machine of the last attempt, or the one after that if the last attempt got no machine. It is the first
    machine if there was no attempt, or if the last one had a machine that the task does not name any more.

    Args:
        machines: the machines to try in turn.
        last: description of the last attempt.
    """
    position = next(
        (n for n, machine in enumerate(machines) if last and machine.label == get_machine_label(last)), None
    )
    if last is None or position is None:
        return machines[0]
    position += had_no_capacity(last)
    return machines[position] if position < len(machines) else None


def list_switches(attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """List each change of machine between two attempts: from, to, reason, and the job that had no capacity."""
    return [
        {
            "from": get_machine_label(before),
            "to": get_machine_label(after),
            "reason": str(before.get("FailureReason") or before.get("SecondaryStatus", "")),
            "job": str(before["TrainingJobName"]),
        }
        for before, after in pairwise(attempts)
        if get_machine_label(before) != get_machine_label(after)
    ]
