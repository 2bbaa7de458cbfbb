"""Test updates of endpoints: traffic moves step by step, and a bad release is rolled back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.tools.processes import is_alive

ALARM: dict[str, Any] = {
    "Namespace": "AWS/SageMaker",
    "MetricName": "Invocation5XXErrors",
    "Dimensions": [{"Name": "EndpointName", "Value": "canary"}, {"Name": "VariantName", "Value": "main"}],
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 5.0,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
}


def build_deployment(kind: str = "ALL_AT_ONCE", *alarms: str, wait_s: int = 0, **size: Any) -> dict[str, Any]:
    """Return a DeploymentConfig."""
    routing = {"Type": kind, "WaitIntervalInSeconds": wait_s, **size}
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 0}
    names = [{"AlarmName": alarm} for alarm in alarms]
    return {"BlueGreenUpdatePolicy": policy, **({"AutoRollbackConfiguration": {"Alarms": names}} if names else {})}


CANARY = {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50}}


def update(endpoints: Any, name: str, config: str, **deployment: Any) -> None:
    """Begin to update an endpoint."""
    endpoints.sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=config, **deployment)


def test_update_replaces_the_instances_and_no_request_fails(endpoints: Any, drydock: Any) -> None:
    endpoints.create_endpoint("blue")
    before = endpoints.invoke("blue")["pid"]
    endpoints.create_config("green", main=1.0)
    update(endpoints, "blue", "green")
    with pytest.raises(ClientError, match="its status is Updating, not InService"):
        update(endpoints, "blue", "green")
    models = []
    while endpoints.describe("blue")["EndpointStatus"] == "Updating":
        models.append(endpoints.invoke("blue")["model"])
    assert models == sorted(models), "old answers, then new ones"
    assert endpoints.invoke("blue")["model"] == "green-main"
    drydock.wait_until("the end of the old process", lambda: not is_alive(before))


def test_model_that_does_not_load_leaves_the_old_one_serving(endpoints: Any) -> None:
    endpoints.create_endpoint("keeps")
    endpoints.create_model("worse", FAIL="cannot load")
    endpoints.sagemaker.create_endpoint_config(
        EndpointConfigName="worse", ProductionVariants=[endpoints.build_variant("worse")]
    )
    update(endpoints, "keeps", "worse")
    description = endpoints.wait_for_status("keeps", "InService")
    assert "cannot load" in description["FailureReason"]
    assert description["EndpointConfigName"] == "keeps"
    assert endpoints.invoke("keeps")["model"] == "keeps-main"


def read_sum(drydock: Any, metric: str) -> float:
    """Return the sum of a metric of the endpoint `canary` in the last hour."""
    now = datetime.now(UTC)
    response = drydock.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName=metric,
        Dimensions=ALARM["Dimensions"],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Sum"],
    )
    return float(sum(point["Sum"] for point in response["Datapoints"]))


def test_errors_of_a_canary_raise_the_alarm_that_rolls_it_back(endpoints: Any, drydock: Any) -> None:
    cloudwatch = drydock.client("cloudwatch")
    cloudwatch.put_metric_alarm(AlarmName="errors", **ALARM)
    endpoints.create_endpoint("canary")
    endpoints.create_config("bad", main=1.0)
    deployment = build_deployment("CANARY", "errors", wait_s=600, **CANARY)
    update(endpoints, "canary", "bad", DeploymentConfig=deployment)
    drydock.wait_until(
        "answers of both models", lambda: set(endpoints.invoke_often("canary", 20)) == {"canary-main", "bad-main"}
    )
    assert endpoints.describe("canary")["PendingDeploymentSummary"] == {"EndpointConfigName": "bad"}
    drydock.send_command("variant", endpoint="canary", config="b*d", error_rate=1)
    answers = []
    while "FailureReason" not in endpoints.describe("canary"):
        answers += endpoints.invoke_often("canary", 1)
    assert set(answers) == {"canary-main", "ModelError"}, "only the new model is broken"
    assert answers.count("ModelError") == read_sum(drydock, "Invocation5XXErrors") >= 5
    description = endpoints.wait_for_status("canary", "InService")
    assert "the alarm errors was in the state ALARM" in description["FailureReason"]
    assert description["EndpointConfigName"] == "canary"
    assert set(endpoints.invoke_often("canary", 20)) == {"canary-main"}
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["errors"])["MetricAlarms"]
    assert alarm["StateValue"] == "ALARM" and "crossed the threshold" in alarm["StateReason"]


@pytest.mark.soak
def test_canary_without_errors_becomes_the_only_model(endpoints: Any, drydock: Any) -> None:
    drydock.client("cloudwatch").put_metric_alarm(AlarmName="quiet", **{**ALARM, "Threshold": 1e6})
    endpoints.create_endpoint("steps")
    endpoints.create_config("good", main=1.0)
    linear = {"LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 50}}
    update(endpoints, "steps", "good", DeploymentConfig=build_deployment("LINEAR", "quiet", wait_s=1, **linear))
    drydock.wait_until("the update", lambda: endpoints.describe("steps")["EndpointConfigName"] == "good")
    assert set(endpoints.invoke_often("steps", 20)) == {"good-main"}
    assert "FailureReason" not in endpoints.wait_for_status("steps", "InService")


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (build_deployment("ALL_AT_ONCE", "nowhere"), "alarm nowhere does not exist"),
        (
            build_deployment("CANARY", CanarySize={"Type": "CAPACITY_PERCENT", "Value": 60}),
            "CanarySize must be at most 50 percent of the instances, not 60%",
        ),
        (build_deployment("CANARY"), "must have CanarySize"),
        (build_deployment("LINEAR", LinearStepSize={"Type": "CAPACITY_PERCENT", "Value": 5}), "LinearStepSize must be"),
        (
            build_deployment("CANARY", CanarySize={"Type": "INSTANCE_COUNT", "Value": 1}),
            "CanarySize must be at most 50 percent of the instances, not 100%",
        ),
    ],
)
def test_wrong_deployment_is_refused_and_the_endpoint_stays(
    endpoints: Any, deployment: dict[str, Any], message: str
) -> None:
    endpoints.ensure_endpoint("stays")
    endpoints.ensure_endpoint("other")
    with pytest.raises(ClientError, match=message):
        update(endpoints, "stays", "other", DeploymentConfig=deployment)
    assert endpoints.describe("stays")["EndpointStatus"] == "InService"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"endpoint": "unknown"}, 404, "no endpoint unknown"),
        ({"endpoint": "faults", "variant": "mian"}, 404, "endpoint faults has no variant mian; its variants: main"),
        ({"endpoint": "faults", "errors": 1}, 400, "unknown field 'errors'"),
        ({"endpoint": "faults", "error_rate": 2}, 400, "error_rate must be 0 to 1"),
        ({"endpoint": "faults", "status": 200}, 400, "status must be 400 to 599"),
    ],
)
def test_wrong_fault_is_refused(endpoints: Any, drydock: Any, body: dict[str, Any], status: int, message: str) -> None:
    endpoints.ensure_endpoint("faults")
    code, text = drydock.send_refused_command("variant", **body)
    assert code == status and message in text
