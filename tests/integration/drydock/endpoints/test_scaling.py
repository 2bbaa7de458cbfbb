"""Test Application Auto Scaling: the number of instances follows the requests, within the registered range."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1", "--scaling-period", "0.5")
METRIC = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
TARGET: dict[str, Any] = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


@pytest.fixture(scope="module")
def scaling(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any, make_client: Any) -> Iterator[Any]:
    """Return the calls, for a server whose policies read their metrics twice a second."""
    with start_drydock(tmp_path_factory.mktemp("scaling"), *OPTIONS) as server:
        yield make_client(server)


def register(client: Any, name: str, low: int = 1, high: int = 3, variant: str = "main") -> dict[str, Any]:
    """Register a variant, and return the members that name it."""
    target = {**TARGET, "ResourceId": f"endpoint/{name}/variant/{variant}"}
    client.server.client("application-autoscaling").register_scalable_target(
        MinCapacity=low, MaxCapacity=high, **target
    )
    return target


def put_policy(client: Any, target: dict[str, Any], value: float, **config: Any) -> str:
    """Put a policy of target tracking without cooldowns, and return its ARN."""
    cooldowns = {"ScaleInCooldown": 0, "ScaleOutCooldown": 0}
    response = client.server.client("application-autoscaling").put_scaling_policy(
        PolicyName="invocations",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": value,
            "PredefinedMetricSpecification": METRIC,
            **cooldowns,
            **config,
        },
        **target,
    )
    return str(response["PolicyARN"])


def count_instances(client: Any, name: str) -> int:
    """Return how many instances of an endpoint answer."""
    return int(client.describe(name)["ProductionVariants"][0]["CurrentInstanceCount"])


def list_activities(client: Any, name: str) -> list[dict[str, Any]]:
    """Return the scaling activities of an endpoint, newest first."""
    resource = f"endpoint/{name}/variant/main"
    autoscaling = client.server.client("application-autoscaling")
    return list(
        autoscaling.describe_scaling_activities(ServiceNamespace="sagemaker", ResourceId=resource)["ScalingActivities"]
    )


def test_instances_follow_the_requests_out_and_in(scaling: Any) -> None:
    scaling.create_endpoint("grows")
    put_policy(scaling, register(scaling, "grows"), 60.0)  # one request a second and instance
    stopped = threading.Event()

    def send() -> None:
        while not stopped.is_set():
            scaling.invoke("grows")
            time.sleep(0.05)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        scaling.server.wait_until("three instances", lambda: count_instances(scaling, "grows") == 3)
        scaling.wait_for_status("grows", "InService")
        assert len({scaling.invoke("grows")["pid"] for _ in range(12)}) == 3
    finally:
        stopped.set()
        thread.join()
    scaling.server.wait_until("one instance", lambda: len(scaling.list_processes("grows")) == 1)
    scaling.wait_for_status("grows", "InService")
    first, *_, last = reversed(list_activities(scaling, "grows"))
    assert first["Description"] in {f"Setting desired instance count to {count}." for count in (2, 3)}
    assert (last["Description"], last["Cause"]) == (
        "Setting desired instance count to 1.",
        "policy invocations was triggered",
    )
    assert (first["StatusCode"], last["ServiceNamespace"]) == ("Successful", "sagemaker")


@pytest.mark.soak
def test_range_holds_and_scale_in_can_be_disabled(scaling: Any) -> None:
    scaling.create_endpoint("range")
    target = register(scaling, "range", 2, 2)
    scaling.server.wait_until("the lower bound", lambda: count_instances(scaling, "range") == 2)
    scaling.wait_for_status("range", "InService")
    put_policy(scaling, target, 1000.0, DisableScaleIn=True)
    register(scaling, "range", 1, 2)
    time.sleep(10)  # longer than 15 periods
    assert count_instances(scaling, "range") == 2
    put_policy(scaling, target, 1000.0)
    scaling.server.wait_until("the scale-in", lambda: count_instances(scaling, "range") == 1)


def test_step_policy_follows_an_alarm(scaling: Any) -> None:
    scaling.create_endpoint("steps")
    target = register(scaling, "steps")
    autoscaling, cloudwatch = (scaling.server.client(name) for name in ("application-autoscaling", "cloudwatch"))
    arn = autoscaling.put_scaling_policy(
        PolicyName="steps",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
            "Cooldown": 600,
        },
        **target,
    )["PolicyARN"]
    cloudwatch.put_metric_alarm(
        AlarmName="queue",
        Namespace="mine",
        MetricName="queue",
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=10,
        ComparisonOperator="GreaterThanThreshold",
        AlarmActions=[arn],
    )
    cloudwatch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "queue", "Value": 20}])
    scaling.server.wait_until("the step", lambda: count_instances(scaling, "steps") == 2)
    scaling.wait_for_status("steps", "InService")
    time.sleep(2)
    assert count_instances(scaling, "steps") == 2, "the cooldown lasts"


def test_policy_and_instances_survive_a_kill(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_endpoint("kept")
        arn = put_policy(client, register(client, "kept", 2, 3), 1e6, DisableScaleIn=True)
        server.wait_until("the lower bound", lambda: count_instances(client, "kept") == 2)
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        autoscaling = server.client("application-autoscaling")
        (policy,) = autoscaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
        assert policy["PolicyARN"] == arn
        (target,) = autoscaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
        assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 3)
        server.wait_until("both instances", lambda: count_instances(client, "kept") == 2)
        register(client, "kept", 3, 3)
        server.wait_until("three instances", lambda: count_instances(client, "kept") == 3)
        autoscaling.deregister_scalable_target(**TARGET, ResourceId="endpoint/kept/variant/main")
        assert not autoscaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]


def test_update_keeps_the_instances_if_it_says_so(scaling: Any) -> None:
    scaling.create_endpoint("retains")
    scaling.create_config("retains-next", main=5.0)
    scaling.scale("retains", {"VariantName": "main", "DesiredInstanceCount": 2})
    scaling.wait_for_status("retains", "InService")
    scaling.sagemaker.update_endpoint(
        EndpointName="retains",
        EndpointConfigName="retains-next",
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=[{"VariantPropertyType": "DesiredWeight"}],
    )
    (variant,) = scaling.wait_for_status("retains", "InService")["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (2, 5.0)
    assert scaling.describe("retains")["EndpointConfigName"] == "retains-next"


def test_update_keeps_variants_that_are_registered(scaling: Any) -> None:
    scaling.create_endpoint("named")
    register(scaling, "named", 1, 1)
    scaling.create_config("others", other=1.0)
    with pytest.raises(ClientError, match=r'The variant\(s\) "\[main\]" must be deregistered as scalable targets'):
        scaling.sagemaker.update_endpoint(EndpointName="named", EndpointConfigName="others")
    scaling.server.client("application-autoscaling").deregister_scalable_target(
        **TARGET, ResourceId="endpoint/named/variant/main"
    )
    scaling.sagemaker.update_endpoint(EndpointName="named", EndpointConfigName="others")
    scaling.wait_for_status("named", "InService")


def test_wrong_targets_and_policies_are_refused(scaling: Any) -> None:
    scaling.ensure_endpoint("plain")
    with pytest.raises(ClientError, match=r"ValidationException.*endpoint/plain/variant/other does not exist"):
        register(scaling, "plain", variant="other")
    with pytest.raises(ClientError, match="MinCapacity of a variant must be at least 1"):
        register(scaling, "plain", 0, 1)
    with pytest.raises(ClientError, match=r"MaxCapacity \(1\) must be greater than or equal to MinCapacity \(2\)"):
        register(scaling, "plain", 2, 1)
    with pytest.raises(ClientError, match=r"MinCapacity \(21\) must be at most 20"):
        register(scaling, "plain", 21, 21)
    target = {**TARGET, "ResourceId": "endpoint/plain/variant/main"}
    with pytest.raises(ClientError, match=r"ObjectNotFoundException.*No scalable target registered"):
        put_policy(scaling, target, 1.0)
    register(scaling, "plain", 1, 1)
    with pytest.raises(ClientError, match="TargetValue must be greater than 0"):
        put_policy(scaling, target, 0.0)
    with pytest.raises(ClientError, match="ScaleInCooldown must be greater than or equal to 0, not -1"):
        put_policy(scaling, target, 1.0, ScaleInCooldown=-1)
    with pytest.raises(ClientError, match=r"ValidationException.*NextToken is not a token of this server"):
        scaling.server.client("application-autoscaling").describe_scaling_activities(
            ServiceNamespace="sagemaker", NextToken="-1"
        )
    with pytest.raises(ClientError, match="must have StepScalingPolicyConfiguration"):
        scaling.server.client("application-autoscaling").put_scaling_policy(
            PolicyName="empty", PolicyType="StepScaling", **target
        )
    with pytest.raises(ClientError, match="drydock does not have the metric DynamoDBReadCapacityUtilization"):
        put_policy(
            scaling,
            target,
            1.0,
            PredefinedMetricSpecification={"PredefinedMetricType": "DynamoDBReadCapacityUtilization"},
        )
