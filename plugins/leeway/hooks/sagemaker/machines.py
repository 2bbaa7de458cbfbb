"""Choose the machine on which a training job runs, from SageMaker's description of the task's previous job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from airflow.sdk.exceptions import AirflowFailException

OnNoCapacity = Literal["fail", "next_instance_type", "on_demand"]
"""What to do if a job got no instances within max_wait_s."""
NO_CAPACITY_POLICIES: tuple[OnNoCapacity, ...] = ("fail", "next_instance_type", "on_demand")
"""All values of `OnNoCapacity`."""
NO_CAPACITY_PREFIX = "CapacityError"
"""Beginning of the FailureReason if SageMaker has no machine on demand."""


@dataclass(frozen=True)
class Machine:
    """The type and the number of a job's machines, and how long the job may run on them and wait for them."""

    instance_type: str
    instance_count: int
    volume_size_gb: int
    is_spot: bool
    max_run_s: int
    max_wait_s: int

    def __post_init__(self) -> None:
        """Check the times of a spot job, as SageMaker does.

        Raises:
            AirflowFailException: max_wait_s is shorter than max_run_s. A retry cannot help.
        """
        if self.is_spot and self.max_wait_s < self.max_run_s:
            raise AirflowFailException(f"max_wait_s ({self.max_wait_s}) must be at least max_run_s ({self.max_run_s}).")

    @property
    def label(self) -> str:
        """Instance type, and "spot" or "on demand", for log lines and for `list_switches`."""
        return f"{self.instance_type} {'spot' if self.is_spot else 'on demand'}"

    def build_request(self) -> dict[str, Any]:
        """Return the part of the request to CreateTrainingJob that describes the machine."""
        wait_limit = {"MaxWaitTimeInSeconds": self.max_wait_s} if self.is_spot else {}
        return {
            "EnableManagedSpotTraining": self.is_spot,
            "StoppingCondition": {"MaxRuntimeInSeconds": self.max_run_s, **wait_limit},
            "ResourceConfig": {
                "InstanceType": self.instance_type,
                "InstanceCount": self.instance_count,
                "VolumeSizeInGB": self.volume_size_gb,
            },
        }


def list_machines_to_try(machine: Machine, types: Sequence[str], on_no_capacity: OnNoCapacity) -> list[Machine]:
    """Return the machines to try in turn: each type; then, if the policy says so, the first type on demand.

    Args:
        machine: a machine with the instance count, the volume size and the time limits that all machines get.
        types: instance types; only one if the policy is `fail` (`check_instance_types`).
        on_no_capacity: the policy: what to do if a job got no instances.
    """
    machines = [replace(machine, instance_type=instance_type) for instance_type in types]
    if on_no_capacity == "on_demand" and machine.is_spot:
        machines.append(replace(machine, instance_type=types[0], is_spot=False))
    return machines


def get_machine_label(job: Mapping[str, Any]) -> str:
    """Return the `Machine.label` of the machine that a described job requested."""
    is_spot = job.get("EnableManagedSpotTraining", False)
    return f"{job['ResourceConfig'].get('InstanceType', '')} {'spot' if is_spot else 'on demand'}"


def had_no_capacity(job: Mapping[str, Any]) -> bool:
    """Return whether a job ended because SageMaker had no machine for it.

    Either the job waited too long for a machine, at its start or after an interruption, or there was no machine on
    demand.
    """
    has_waited_too_long = job.get("SecondaryStatus") == "MaxWaitTimeExceeded"
    return has_waited_too_long or str(job.get("FailureReason", "")).startswith(NO_CAPACITY_PREFIX)


def choose_next_machine(machines: Sequence[Machine], last_attempt: Mapping[str, Any] | None) -> Machine | None:
    """Return the machine for the next attempt; None if SageMaker did not have the last machine of the list.

    If SageMaker did not have the machine of the previous attempt, the next attempt uses the machine that follows in the
    list; otherwise it uses the same machine again. The first machine is used if there was no attempt, or if the list no
    longer has the machine of the previous attempt.

    Args:
        machines: the machines to try in turn.
        last_attempt: SageMaker's description of the previous attempt; None if there was none.
    """
    if last_attempt is None:
        return machines[0]
    labels = [machine.label for machine in machines]
    label = get_machine_label(last_attempt)
    if label not in labels:
        return machines[0]
    position = labels.index(label)
    if had_no_capacity(last_attempt):
        position += 1
    return machines[position] if position < len(machines) else None


def list_switches(attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """List the changes of the machine between attempts: `from`, `to`, the earlier `job` and the `reason` of its end."""
    return [
        {
            "from": get_machine_label(attempt),
            "to": get_machine_label(next_attempt),
            "reason": str(attempt.get("FailureReason") or attempt.get("SecondaryStatus", "")),
            "job": str(attempt["TrainingJobName"]),
        }
        for attempt, next_attempt in pairwise(attempts)
        if get_machine_label(attempt) != get_machine_label(next_attempt)
    ]
