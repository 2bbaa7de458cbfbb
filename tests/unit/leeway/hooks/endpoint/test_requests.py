"""Test the requests of an endpoint: equal contents have equal names, and the policy decides traffic and alarms."""

from typing import Any

import boto3
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from leeway.hooks.endpoint import failures, requests
from leeway.hooks.sagemaker.request_checks import check_shape

from pipelines.errors import SpecError
from pipelines.serving.endpoint_resources import build_endpoint_name
from pipelines.serving.release_policy import ReleasePolicy

CONTAINER = {"Image": "image", "ModelDataUrl": "s3://b/model.tar.gz"}
ROLE = "arn:aws:iam::123456789012:role/leeway"


def build_policy(**values: Any) -> dict[str, Any]:
    return ReleasePolicy.parse(values, "test").build_release()


def check(operation: str, request: dict[str, Any], service: str = "sagemaker") -> None:
    """Check a request by botocore's description of the operation."""
    model = boto3.client(service, region_name="us-east-1").meta.service_model
    check_shape(request, model.operation_model(operation).input_shape)


def test_names_are_derived_from_the_content() -> None:
    name = requests.build_model_request("e", "1", ROLE, CONTAINER, [])["ModelName"]
    assert name.startswith("e-1-")
    tags = [{"Key": "leeway:run", "Value": "another"}]
    assert requests.build_model_request("e", "1", ROLE, CONTAINER, tags)["ModelName"] == name
    for arguments in (("f", "1", ROLE, CONTAINER), ("e", "2", ROLE, CONTAINER), ("e", "1", ROLE, {"Image": "other"})):
        assert requests.build_model_request(*arguments, [])["ModelName"] != name
    config = requests.build_config_request("e", "1", name, build_policy(), "s3://b/capture", [])
    other = requests.build_config_request("e", "1", name, build_policy(instance_count=2), "s3://b/capture", [])
    release = requests.build_config_request("e", "1", name, build_policy(traffic="linear"), "s3://b/capture", [])
    assert config["EndpointConfigName"] == release["EndpointConfigName"], "how it is released is not what is served"
    assert config["EndpointConfigName"] != other["EndpointConfigName"]
    assert config["Tags"] == [{"Key": "leeway:endpoint", "Value": "e"}]


def test_longest_names_are_within_sagemakers_limits() -> None:
    endpoint = "e" * 41
    model = requests.build_model_request(endpoint, "12345", ROLE, CONTAINER, [])
    check("CreateModel", model)
    policy = build_policy(capture_percent=50, latency_ms=5, error_count=1)
    check(
        "CreateEndpointConfig",
        requests.build_config_request(endpoint, "12345", model["ModelName"], policy, "s3://b/x", []),
    )
    for alarm in requests.build_alarm_requests(endpoint, policy):
        check("PutMetricAlarm", alarm, "cloudwatch")


@pytest.mark.parametrize(
    ("values", "routing", "longest_s"),
    [
        ({"traffic": "all_at_once", "wait_s": 0, "bake_s": 0}, {"Type": "ALL_AT_ONCE"}, 3_600),
        (
            {"traffic": "canary", "step_percent": 10, "wait_s": 60, "bake_s": 30},
            {"Type": "CANARY", "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10}},
            3_750,
        ),
        (
            {"traffic": "linear", "step_percent": 30, "wait_s": 60, "bake_s": 0},
            {"Type": "LINEAR", "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 30}},
            3_840,
        ),
    ],
)
def test_policy_decides_how_traffic_moves(values: dict[str, Any], routing: dict[str, Any], longest_s: int) -> None:
    policy = build_policy(**values)
    config = requests.build_deployment_config("e", policy)
    check("UpdateEndpoint", {"EndpointName": "e", "EndpointConfigName": "c", "DeploymentConfig": config})
    update = config["BlueGreenUpdatePolicy"]
    expected_routing = {**routing, "WaitIntervalInSeconds": values["wait_s"]}
    assert update["TrafficRoutingConfiguration"] == expected_routing
    assert update["TerminationWaitInSeconds"] == values["bake_s"]
    assert update["MaximumExecutionTimeoutInSeconds"] == requests.compute_duration_s(policy) == longest_s
    assert config["AutoRollbackConfiguration"] == {"Alarms": [{"AlarmName": "leeway-e-errors"}]}


def test_longest_release_is_within_sagemakers_limit() -> None:
    policy = build_policy(traffic="linear", wait_s=2_800)
    update = requests.build_deployment_config("e", policy)["BlueGreenUpdatePolicy"]
    assert update["MaximumExecutionTimeoutInSeconds"] == 28_800


def test_policy_decides_the_alarms() -> None:
    policy = build_policy(error_percent=2, error_count=5, latency_ms=40, latency_statistic="p99", alarm_period_s=120)
    share, count, latency = requests.build_alarm_requests("e", policy)
    assert (share["Statistic"], share["Threshold"], share["Period"]) == ("Average", 0.02, 120)
    assert (count["MetricName"], count["Statistic"], count["Threshold"]) == ("Invocation5XXErrors", "Sum", 5.0)
    assert (latency["ExtendedStatistic"], latency["Threshold"]) == ("p99", 40_000.0)
    assert "Statistic" not in latency
    (average,) = requests.build_alarm_requests("e", build_policy(error_percent=None, latency_ms=40))
    assert (average["AlarmName"], average["Statistic"]) == ("leeway-e-latency", "Average")
    no_alarms = build_policy(error_percent=None)
    assert "AutoRollbackConfiguration" not in requests.build_deployment_config("e", no_alarms)
    assert "AutoRollbackConfiguration" not in requests.build_deployment_config("e", build_policy(rollback=False))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"step_percent": 51}, "step_percent"),
        ({"traffic": "linear", "step_percent": 9}, "step_percent of a linear release must be 10 to 50, not 9"),
        ({"traffic": "rolling"}, "traffic"),
        ({"wait_s": 3_601}, "wait_s"),
        ({"bake_s": -1}, "bake_s"),
        ({"instance_count": 0}, "instance_count"),
        ({"instance_type": "m5.large"}, "instance_type"),
        ({"error_percent": 0}, "error_percent"),
        ({"latency_ms": "NaN"}, "latency_ms"),
        ({"latency_statistic": "p999"}, "latency_statistic"),
        ({"alarm_period_s": 90}, "alarm_period_s must be whole minutes, not 90 seconds"),
        ({"alarm_period_s": 3_540, "alarm_periods": 60}, "is 212400 s: CloudWatch's alarms cover at most 86400 s"),
        ({"traffic": "linear", "wait_s": 3_600}, "take 36300 s: SageMaker rolls back after 28800 s"),
        ({"step_percent": 5, "error_percent": 5}, "error_percent 5 must be below step_percent 5"),
        ({"traffic": "linear", "error_percent": 10.5}, "error_percent 10.5 must be below step_percent 10"),
        ({"capture_percent": 101}, "capture_percent"),
        ({"colour": "red"}, "unknown key colour"),
        ({"serverless_memory_mb": 512}, "serverless_memory_mb"),
        ({"serverless_memory_mb": 7_168}, "serverless_memory_mb"),
        ({"serverless_memory_mb": 1_500}, "must be 1024, 2048, 3072, 4096, 5120 or 6144, not 1500"),
        ({"serverless_memory_mb": 1_024, "serverless_max_concurrency": 201}, "serverless_max_concurrency"),
        ({"serverless_memory_mb": 1_024, "serverless_max_concurrency": 0}, "serverless_max_concurrency"),
        ({"serverless_memory_mb": 1_024, "serverless_load": 6}, "serverless_load must not be larger than"),
        ({"serverless_max_concurrency": 2}, "serverless_max_concurrency has no effect without serverless_memory_mb"),
        ({"serverless_memory_mb": 1_024, "traffic": "canary"}, "cannot have traffic canary"),
        ({"serverless_memory_mb": 1_024, "traffic": "linear", "rollback": True}, "traffic linear, rollback by alarms"),
        ({"serverless_memory_mb": 1_024, "capture_percent": 5}, "cannot have capture_percent"),
        ({"serverless_memory_mb": 1_024, "shadow_minutes": 5}, "cannot have shadow_minutes"),
    ],
)
def test_wrong_policy_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        build_policy(**values)


def test_a_section_alone_may_lack_what_another_file_sets() -> None:
    ReleasePolicy.check({"step_percent": 1}, "params.yaml")  # error_percent may be in the model's file
    ReleasePolicy.check({"traffic": "linear", "wait_s": 3_600}, "params.yaml")
    with pytest.raises(SpecError, match="step_percent"):
        ReleasePolicy.check({"step_percent": 0}, "params.yaml")


def test_a_serverless_endpoint_has_memory_and_is_updated_at_once() -> None:
    policy = build_policy(serverless_memory_mb=2_048, serverless_max_concurrency=20, instance_count=2)
    assert (policy["traffic"], policy["rollback"], policy["wait_s"], policy["bake_s"]) == ("all_at_once", False, 0, 0)
    request = requests.build_config_request("e", "1", "m", policy, "s3://b/capture", [])
    check("CreateEndpointConfig", request)
    (variant,) = request["ProductionVariants"]
    assert variant["ServerlessConfig"] == {"MemorySizeInMB": 2_048, "MaxConcurrency": 20}
    assert not {"InstanceType", "InitialInstanceCount"} & set(variant) and "DataCaptureConfig" not in request
    assert requests.build_traffic_fields("e", policy) == {}
    assert list(requests.build_traffic_fields("e", build_policy())) == ["DeploymentConfig"], "the control"
    with_load = build_policy(serverless_memory_mb=2_048, serverless_max_concurrency=20, serverless_load=0.1)
    assert requests.build_config_request("e", "1", "m", with_load, "s3://b/capture", []) == request


@pytest.mark.parametrize("variant", [{}, {"CurrentServerlessConfig": {"MemorySizeInMB": 1_024, "MaxConcurrency": 5}}])
def test_instances_do_not_become_serverless(variant: dict[str, Any]) -> None:
    endpoint = {"EndpointName": "e", "ProductionVariants": [variant]}
    failures.refuse_conversion(endpoint, is_serverless=False)
    if variant:
        failures.refuse_conversion(endpoint, is_serverless=True)
        return
    with pytest.raises(AirflowFailException, match="endpoint e has instances, and SageMaker cannot make it serverless"):
        failures.refuse_conversion(endpoint, is_serverless=True)


def test_endpoint_has_the_models_name() -> None:
    assert build_endpoint_name("flight_delay") == "flight-delay"


def test_reason_names_the_alarms_and_keeps_the_end_of_the_log() -> None:
    alarms, raised = {"leeway-e-errors": "crossed.", "leeway-e-latency": ""}, {"leeway-e-latency": ""}
    reason = "The update was rolled back because the alarm leeway-e-errors was in the state ALARM."
    causes = failures.find_causing_alarms(reason, alarms, raised)
    assert causes == ["leeway-e-errors"]
    text = failures.describe_cause(reason, causes, alarms)
    assert text == f"rolled back by alarm leeway-e-errors (crossed): {reason}"
    assert failures.find_causing_alarms("Alarms were breached", alarms, raised) == ["leeway-e-latency"]
    assert failures.find_causing_alarms("the model does not load", alarms, raised) == []
    long_reason = failures.format_reason({"FailureReason": f"first\n{'x' * 2_000} last"})
    assert long_reason.startswith("first x") and long_reason.endswith("x last") and len(long_reason) < 1_000
    assert failures.format_reason({}) == "no reason is given"


@pytest.mark.parametrize(
    ("reason", "error_type"),
    [
        ("The update was rolled back because the alarm x was in the state ALARM.", AirflowFailException),
        ("CapacityError: Unable to provision requested ML compute capacity", AirflowException),
        ("InternalServerError: drydock ended", AirflowException),
    ],
)
def test_only_failures_of_sagemaker_are_retried(reason: str, error_type: type) -> None:
    assert type(failures.make_deployment_error("text", reason)) is error_type
