"""Read a DeploymentConfig: in which steps the traffic moves to the new instances, and which alarms end the update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drydock.jobs.rules import refuse

MAX_CANARY_SHARE = 0.5
LINEAR_SHARES = (0.1, 0.5)


@dataclass(frozen=True)
class TrafficPlan:
    """How the traffic moves to the new instances.

    Attributes:
        shares: The share of the requests that the new instances get, step by step; the last is 1.
        wait_s: Seconds after each step, in which the alarms are watched.
        termination_wait_s: Seconds from the last step's end until the old instances are stopped.
        alarms: Names of the alarms that end the update.
    """

    shares: Sequence[float] = (1.0,)
    wait_s: float = 0.0
    termination_wait_s: float = 0.0
    alarms: Sequence[str] = ()


def build_traffic_plan(deployment: Mapping[str, Any] | None, instance_count: int) -> TrafficPlan:
    """Return the traffic plan of a DeploymentConfig; all at once without one, as SageMaker does.

    Args:
        deployment: The DeploymentConfig of the request; None without one.
        instance_count: How many instances the new configuration has.

    Raises:
        AWSValidationException: A step is too small or too large, or drydock does not support the policy. A retry cannot
            help.
    """
    if not deployment:
        return TrafficPlan()
    if "RollingUpdatePolicy" in deployment:
        refuse("RollingUpdatePolicy is not supported by drydock: use BlueGreenUpdatePolicy.")
    policy = deployment.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    alarms = deployment.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    return TrafficPlan(
        shares=_list_shares(routing, instance_count),
        wait_s=routing.get("WaitIntervalInSeconds", 0),
        termination_wait_s=policy.get("TerminationWaitInSeconds", 0),
        alarms=[alarm["AlarmName"] for alarm in alarms if "AlarmName" in alarm],
    )


def _list_shares(routing: Mapping[str, Any], instance_count: int) -> Sequence[float]:
    kind = routing.get("Type", "ALL_AT_ONCE")
    if kind == "CANARY":
        share = _read_share(routing, "CanarySize", instance_count)
        if not 0 < share <= MAX_CANARY_SHARE:
            refuse(f"CanarySize must be at most 50 percent of the instances, not {share:.0%}.")
        return (share, 1.0)
    if kind == "LINEAR":
        share = _read_share(routing, "LinearStepSize", instance_count)
        if not LINEAR_SHARES[0] <= share <= LINEAR_SHARES[1]:
            refuse(f"LinearStepSize must be 10 to 50 percent of the instances, not {share:.0%}.")
        steps = [share * number for number in range(1, int(1 / share) + 1)]
        return (*(step for step in steps if step < 1), 1.0)
    return (1.0,)


def _read_share(routing: Mapping[str, Any], member: str, instance_count: int) -> float:
    size = routing.get(member)
    if size is None:
        refuse(f"TrafficRoutingConfiguration of type {routing['Type']} must have {member}.")
    return float(size["Value"] / (100 if size["Type"] == "CAPACITY_PERCENT" else instance_count))
