"""Test updates of endpoints: traffic moves step by step, and a bad release is rolled back."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.tools.processes import is_alive

ALARM = {"Namespace": "AWS/SageMaker", "MetricName": "Invocation5XXErrors", "EvaluationPeriods": 1, "Period": 60}
ALARM |= {"Statistic": "Sum", "Threshold": 1.0, "ComparisonOperator": "GreaterThanOrEqualToThreshold"}


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


def set_alarm(drydock: Any, name: str, state: str) -> None:
    """Set the state of an alarm."""
    drydock.client("cloudwatch").set_alarm_state(AlarmName=name, StateValue=state, StateReason="test")


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


def test_alarm_during_a_canary_rolls_the_update_back(endpoints: Any, drydock: Any) -> None:
    drydock.client("cloudwatch").put_metric_alarm(AlarmName="errors", **ALARM)
    endpoints.create_endpoint("canary")
    endpoints.create_config("bad", main=1.0)
    update(endpoints, "canary", "bad", DeploymentConfig=build_deployment("CANARY", "errors", wait_s=600, **CANARY))

    def find_both() -> bool:
        return {endpoints.invoke("canary")["model"] for _ in range(20)} == {"canary-main", "bad-main"}

    drydock.wait_until("answers of both models", find_both)
    assert drydock.send_command("variant", endpoint="canary", config="bad", error_rate=1) == {
        "endpoint": "canary",
        "variant": "",
        "config": "bad",
    }
    assert set(endpoints.invoke_often("canary", 40)) == {"canary-main", "ModelError"}, "only the new model is broken"
    set_alarm(drydock, "errors", "ALARM")
    drydock.wait_until("the rollback", lambda: "FailureReason" in endpoints.describe("canary"))
    description = endpoints.wait_for_status("canary", "InService")
    assert "the alarm errors was in the state ALARM" in description["FailureReason"]
    assert description["EndpointConfigName"] == "canary"
    assert {endpoints.invoke("canary")["model"] for _ in range(20)} == {"canary-main"}
    set_alarm(drydock, "errors", "OK")
    linear = {"LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 50}}
    endpoints.create_config("good", main=1.0)
    update(endpoints, "canary", "good", DeploymentConfig=build_deployment("LINEAR", "errors", wait_s=1, **linear))
    drydock.wait_until("the update", lambda: endpoints.describe("canary")["EndpointConfigName"] == "good")
    assert endpoints.invoke("canary")["model"] == "good-main"


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
            {"RollingUpdatePolicy": {"MaximumBatchSize": CANARY["CanarySize"], "WaitIntervalInSeconds": 0}},
            "RollingUpdatePolicy is not supported",
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
        ({"endpoint": "faults", "error_rate": 2}, 400, "error_rate must be 0 to 1"),
        ({"endpoint": "faults", "status": 200}, 400, "status must be 400 to 599"),
    ],
)
def test_wrong_fault_is_refused(endpoints: Any, drydock: Any, body: dict[str, Any], status: int, message: str) -> None:
    endpoints.ensure_endpoint("faults")
    code, text = drydock.send_refused_command("variant", **body)
    assert code == status and message in text
