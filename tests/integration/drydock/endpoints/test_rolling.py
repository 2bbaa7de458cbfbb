"""Test rolling updates: instances are replaced batch by batch, and a rollback brings the old ones back."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

AT_ONCE = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1")


def build_rolling(*alarms: str, batch: int = 1, wait_s: int = 0, **policy: Any) -> dict[str, Any]:
    """Return a DeploymentConfig whose batches are so many instances."""
    size = {"Type": "INSTANCE_COUNT", "Value": batch}
    names = [{"AlarmName": alarm} for alarm in alarms]
    return {
        "RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait_s, **policy},
        **({"AutoRollbackConfiguration": {"Alarms": names}} if names else {}),
    }


def create_config(client: Any, name: str, count: int = 2) -> None:
    """Create a model and a configuration with instances of it."""
    client.create_model(name)
    variants = [client.build_variant(name, InitialInstanceCount=count)]
    client.sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants)


def create_endpoint(client: Any, name: str) -> None:
    """Create an endpoint of two instances."""
    create_config(client, name)
    client.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    client.wait_for_status(name, "InService")


def put_alarm(server: Any, endpoint: str) -> None:
    """Create the alarm `errors`, on the errors of an endpoint's model."""
    server.client("cloudwatch").put_metric_alarm(
        AlarmName="errors",
        Namespace="AWS/SageMaker",
        MetricName="Invocation5XXErrors",
        Dimensions=[{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "main"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=5.0,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )


def all_answers_are_of(client: Any, endpoint: str, model: str) -> bool:
    """Return whether a model gives 40 answers in a row. With half of the traffic, it does that once in 10^12 times."""
    return all(client.invoke(endpoint)["model"] == model for _ in range(40))


def test_instances_are_replaced_one_by_one_and_no_request_fails(endpoints: Any) -> None:
    create_endpoint(endpoints, "roll")
    create_config(endpoints, "next")
    endpoints.sagemaker.update_endpoint(
        EndpointName="roll", EndpointConfigName="next", DeploymentConfig=build_rolling(wait_s=1)
    )
    models, counts = set(), set()
    while endpoints.describe("roll")["EndpointStatus"] == "Updating":
        models |= set(endpoints.invoke_often("roll", 5))
        counts.add(len(endpoints.list_processes("roll")))
    assert models == {"roll", "next"}
    assert max(counts) == 3, "a blue/green update has four processes"
    assert set(endpoints.invoke_often("roll", 10)) == {"next"}
    assert endpoints.describe("roll")["EndpointConfigName"] == "next"
    endpoints.server.wait_until("the end of the old ones", lambda: len(endpoints.list_processes("roll")) == 2)


@pytest.mark.soak
def test_alarm_brings_the_stopped_instances_back_batch_by_batch(endpoints: Any, drydock: Any) -> None:
    create_endpoint(endpoints, "keep")
    create_config(endpoints, "bad")
    put_alarm(drydock, "keep")
    before = {endpoints.invoke("keep")["pid"] for _ in range(4)}
    rollback = {"RollbackMaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}}
    endpoints.sagemaker.update_endpoint(
        EndpointName="keep", EndpointConfigName="bad", DeploymentConfig=build_rolling("errors", wait_s=12, **rollback)
    )
    drydock.wait_until("the second batch", lambda: all_answers_are_of(endpoints, "keep", "bad"))
    drydock.send_command("variant", endpoint="keep", config="bad", error_rate=1)
    answers: list[str] = []
    while "FailureReason" not in endpoints.describe("keep"):
        assert endpoints.describe("keep")["EndpointStatus"] != "InService", "the alarm must act before the update ends"
        answers += endpoints.invoke_often("keep", 1)
    assert set(answers) <= {"keep", "ModelError"}
    description = endpoints.wait_for_status("keep", "InService")
    assert "the alarm errors was in the state ALARM" in description["FailureReason"]
    assert description["EndpointConfigName"] == "keep"
    after = [endpoints.invoke("keep") for _ in range(4)]
    assert {answer["model"] for answer in after} == {"keep"}
    assert len({answer["pid"] for answer in after} - before) == 1, "one of the two was stopped, and started again"
    assert len(endpoints.list_processes("keep")) == 2


@pytest.mark.soak
def test_killed_server_begins_a_rolling_update_again(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    """Without its alarm, the update would be rolled back."""
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        create_endpoint(client, "back")
        create_config(client, "next")
        put_alarm(server, "back")
        client.sagemaker.update_endpoint(
            EndpointName="back", EndpointConfigName="next", DeploymentConfig=build_rolling("errors", wait_s=2)
        )
        server.wait_until("the first batch", lambda: "next" in client.invoke_often("back", 3))
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        assert client.invoke("back")["model"] in ("back", "next")
        server.wait_until("the update", lambda: client.describe("back")["EndpointConfigName"] == "next")
        client.wait_for_status("back", "InService")
        assert set(client.invoke_often("back", 6)) == {"next"}


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (build_rolling(batch=2), "MaximumBatchSize must be 5 to 50 percent of the instances, not 100%"),
        (
            build_rolling(RollbackMaximumBatchSize={"Type": "INSTANCE_COUNT", "Value": 3}),
            "RollbackMaximumBatchSize must be 5 to 100 percent of the instances, not 150%",
        ),
        (build_rolling(MaximumExecutionTimeoutInSeconds=10), "Member must have value greater than or equal to 600"),
        (
            build_rolling() | {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": AT_ONCE}},
            "only one of BlueGreenUpdatePolicy and RollingUpdatePolicy",
        ),
    ],
)
def test_wrong_rolling_policy_is_refused(
    endpoints: Any, drydock: Any, deployment: dict[str, Any], message: str
) -> None:
    endpoints.ensure_endpoint("stays")
    if not endpoints.sagemaker.list_endpoint_configs(NameContains="pair")["EndpointConfigs"]:
        create_config(endpoints, "pair")
    client = drydock.create_unchecked_client("sagemaker")
    with pytest.raises(ClientError, match=message):
        client.update_endpoint(EndpointName="stays", EndpointConfigName="pair", DeploymentConfig=deployment)
    assert endpoints.describe("stays")["EndpointStatus"] == "InService"
