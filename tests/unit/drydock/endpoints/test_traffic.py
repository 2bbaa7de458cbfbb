"""Test the steps in which traffic moves to new instances."""

from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.endpoints.traffic import TrafficPlan, build_traffic_plan


def build(kind: str, **size: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 3, **size}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 7}}


@pytest.mark.parametrize(
    ("deployment", "shares"),
    [
        (build("ALL_AT_ONCE"), [1.0]),
        (build("CANARY", CanarySize={"Type": "CAPACITY_PERCENT", "Value": 10}), [0.1, 1.0]),
        (build("CANARY", CanarySize={"Type": "INSTANCE_COUNT", "Value": 1}), [0.25, 1.0]),
        (build("LINEAR", LinearStepSize={"Type": "CAPACITY_PERCENT", "Value": 25}), [0.25, 0.5, 0.75, 1.0]),
        (build("LINEAR", LinearStepSize={"Type": "CAPACITY_PERCENT", "Value": 40}), [0.4, 0.8, 1.0]),
        (build("LINEAR", LinearStepSize={"Type": "CAPACITY_PERCENT", "Value": 10}), [n / 10 for n in range(1, 11)]),
    ],
)
def test_shares_of_the_new_instances_end_with_all(deployment: dict[str, Any], shares: list[float]) -> None:
    plan = build_traffic_plan(deployment, 4)
    assert list(plan.shares) == pytest.approx(shares)
    assert (plan.wait_s, plan.termination_wait_s, list(plan.alarms)) == (3, 7, [])


def test_without_a_deployment_configuration_all_traffic_moves_at_once() -> None:
    assert build_traffic_plan(None, 1) == TrafficPlan()


def test_rolling_update_moves_batch_by_batch() -> None:
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    plan = build_traffic_plan({"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 9}}, 3)
    assert list(plan.shares) == pytest.approx([1 / 3, 2 / 3, 1])
    assert (plan.is_rolling, plan.wait_s, plan.rollback_share) == (True, 9, 1)


def test_rolling_update_of_a_serverless_variant_is_refused() -> None:
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    with pytest.raises(AWSValidationException, match="needs instances"):
        build_traffic_plan({"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": 9}}, 0)
