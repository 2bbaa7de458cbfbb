"""Read a DeploymentConfig: in which steps the traffic moves to the new instances, and which alarms cause a rollback."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drydock.jobs.rules import refuse

# SageMaker's limits: largest size of a canary, and smallest and largest size of a step, as shares of the instances.
MAX_CANARY_SHARE = 0.5
LINEAR_SHARES = (0.1, 0.5)
ROLLING_SHARES = (0.05, 0.5)


@dataclass(frozen=True)
class TrafficPlan:
    """The steps in which the traffic moves to the new instances.

    Attributes:
        shares: The share of the requests that the new instances get, step by step; the last is 1.
        wait_s: Seconds after each step for which the alarms are watched.
        termination_wait_s: Seconds from the last step's end until the old instances are stopped; the alarms are watched
            in this time, too.
        alarms: Names of the alarms that cause a rollback.
        timeout_s: Seconds that the update may take in all; then it is rolled back.
        is_rolling: Whether instances are replaced batch by batch: with each step, new instances start, and as many of
            the old ones are stopped. If it is false, all new instances start before the first step.
        rollback_share: The share of the instances in each batch of the rollback of a rolling update.
    """

    shares: Sequence[float] = (1.0,)
    wait_s: float = 0.0
    termination_wait_s: float = 0.0
    alarms: Sequence[str] = ()
    timeout_s: float = math.inf
    is_rolling: bool = False
    rollback_share: float = 1.0


def build_traffic_plan(deployment: Mapping[str, Any] | None, instance_count: int) -> TrafficPlan:
    """Return the traffic plan of a DeploymentConfig; without one, all traffic moves at once, as in SageMaker.

    Args:
        deployment: The DeploymentConfig of the request; None without one.
        instance_count: How many instances the new configuration has.

    Raises:
        AWSValidationException: The size of a step is missing, too small or too large, there are two policies, or the
            policy needs instances and there are none. A retry cannot help.
    """
    if not deployment:
        return TrafficPlan()
    alarms = deployment.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    names = [alarm["AlarmName"] for alarm in alarms if "AlarmName" in alarm]
    if "RollingUpdatePolicy" in deployment:
        if "BlueGreenUpdatePolicy" in deployment:
            refuse("DeploymentConfig must have only one of BlueGreenUpdatePolicy and RollingUpdatePolicy.")
        return _build_rolling_plan(deployment["RollingUpdatePolicy"], names, instance_count)
    policy = deployment.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    return TrafficPlan(
        shares=_list_shares(routing, instance_count),
        wait_s=routing.get("WaitIntervalInSeconds", 0),
        termination_wait_s=policy.get("TerminationWaitInSeconds", 0),
        alarms=names,
        timeout_s=policy.get("MaximumExecutionTimeoutInSeconds", math.inf),
    )


def _build_rolling_plan(policy: Mapping[str, Any], alarms: Sequence[str], instance_count: int) -> TrafficPlan:
    if instance_count == 0:
        refuse("RollingUpdatePolicy needs instances: a serverless variant has none.")
    share = _read_share(policy, "MaximumBatchSize", instance_count)
    if not ROLLING_SHARES[0] <= share <= ROLLING_SHARES[1]:
        refuse(f"MaximumBatchSize must be 5 to 50 percent of the instances, not {share:.0%}.")
    rollback_share = 1.0
    if "RollbackMaximumBatchSize" in policy:
        rollback_share = _read_share(policy, "RollbackMaximumBatchSize", instance_count)
        if not ROLLING_SHARES[0] <= rollback_share <= 1:
            refuse(f"RollbackMaximumBatchSize must be 5 to 100 percent of the instances, not {rollback_share:.0%}.")
    return TrafficPlan(
        shares=_list_steps(share),
        wait_s=policy["WaitIntervalInSeconds"],
        alarms=alarms,
        timeout_s=policy.get("MaximumExecutionTimeoutInSeconds", math.inf),
        is_rolling=True,
        rollback_share=rollback_share,
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
        return _list_steps(share)
    return (1.0,)


def _list_steps(share: float) -> Sequence[float]:
    """Return the multiples of a share that are less than 1, and then 1."""
    steps = [share * number for number in range(1, int(1 / share) + 1)]
    return (*(step for step in steps if step < 1), 1.0)


def _read_share(policy: Mapping[str, Any], member: str, instance_count: int) -> float:
    size = policy.get(member)
    if size is None:
        refuse(f"TrafficRoutingConfiguration of type {policy['Type']} must have {member}.")
    if size["Type"] == "CAPACITY_PERCENT":
        return float(size["Value"] / 100)
    if instance_count == 0:
        refuse(f"{member} of type INSTANCE_COUNT needs instances: a serverless variant has none.")
    return float(size["Value"] / instance_count)
