"""Test InvokeEndpointAsync: inputs and answers in S3, failures, a queue that survives a kill, and no instances."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1", "--scaling-period", "0.5")
OUTPUT = {"S3OutputPath": "s3://bucket/answers", "S3FailurePath": "s3://bucket/failures"}


def create_endpoint(client: Any, name: str, output: dict[str, str] | None = None) -> None:
    """Create an asynchronous endpoint, and wait until it is in service."""
    client.create_model(name)
    client.sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[client.build_variant(name)],
        AsyncInferenceConfig={"OutputConfig": output or OUTPUT},
    )
    client.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    client.wait_for_status(name, "InService")


def invoke(client: Any, name: str, text: str, **fields: Any) -> dict[str, Any]:
    """Put the text into S3 and invoke the endpoint with it."""
    uri = client.server.put(f"inputs/{name}/{abs(hash(text))}", text.encode())
    return dict(
        client.runtime.invoke_endpoint_async(EndpointName=name, InputLocation=uri, ContentType="text/csv", **fields)
    )


def read(client: Any, uri: str) -> str:
    """Wait for an object, and return its text."""

    def find() -> str | None:
        try:
            return str(client.server.get(uri).decode())
        except ClientError:
            return None

    return str(client.server.wait_until(f"the object {uri}", find))


def test_answer_is_written_to_the_place_that_the_response_names(endpoints: Any) -> None:
    create_endpoint(endpoints, "later")
    response = invoke(endpoints, "later", "1,2", InferenceId="mine", Accept="application/json")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert response["InferenceId"] == "mine"
    assert response["OutputLocation"].startswith("s3://bucket/answers/") and response["OutputLocation"].endswith(".out")
    assert response["FailureLocation"].startswith("s3://bucket/failures/")
    answer = json.loads(read(endpoints, response["OutputLocation"]))
    assert (answer["model"], answer["text"], answer["type"]) == ("later", "1,2", "text/csv")
    named = invoke(endpoints, "later", "3", Filename="day.json", S3OutputPathExtension="2026/11")
    assert named["OutputLocation"] == "s3://bucket/answers/2026/11/day.json"
    assert json.loads(read(endpoints, named["OutputLocation"]))["text"] == "3"
    inline = endpoints.runtime.invoke_endpoint_async(EndpointName="later", Body=b"inline", ContentType="text/csv")
    assert json.loads(read(endpoints, inline["OutputLocation"]))["text"] == "inline"
    description = endpoints.describe("later")
    assert description["AsyncInferenceConfig"] == {"OutputConfig": OUTPUT}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("refuse", 'Received client error (422) from primary with message "{"error": "row 1, column x'),
        ("wait 30", "timed out while waiting for a response"),
    ],
)
def test_failure_is_written_to_the_failure_path(endpoints: Any, text: str, message: str) -> None:
    if "fails" not in {item["EndpointName"] for item in endpoints.sagemaker.list_endpoints()["Endpoints"]}:
        create_endpoint(endpoints, "fails")
    response = invoke(endpoints, "fails", text, InvocationTimeoutSeconds=1)
    assert message in read(endpoints, response["FailureLocation"])
    assert not endpoints.server.list_keys(response["OutputLocation"].removeprefix("s3://bucket/"))
    assert json.loads(read(endpoints, invoke(endpoints, "fails", "next")["OutputLocation"]))["text"] == "next"


def test_input_that_does_not_exist_is_a_failure(endpoints: Any) -> None:
    if "fails" not in {item["EndpointName"] for item in endpoints.sagemaker.list_endpoints()["Endpoints"]}:
        create_endpoint(endpoints, "fails")
    response = endpoints.runtime.invoke_endpoint_async(
        EndpointName="fails", InputLocation="s3://bucket/nothing", ContentType="text/csv"
    )
    assert "cannot read the input s3://bucket/nothing" in read(endpoints, response["FailureLocation"])


def test_requests_wait_for_an_instance_and_a_step_policy_starts_one(
    tmp_path: Path, run_drydock: Any, make_client: Any
) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        create_endpoint(client, "zero")
        client.scale("zero", {"VariantName": "main", "DesiredInstanceCount": 0})
        client.wait_for_status("zero", "InService")
        assert client.list_processes("zero") == []
        responses = [invoke(client, "zero", f"{number}") for number in range(3)]
        time.sleep(1)
        assert server.list_keys("answers/") == []
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        autoscaling, cloudwatch = server.client("application-autoscaling"), server.client("cloudwatch")
        target = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
        target["ResourceId"] = "endpoint/zero/variant/main"
        autoscaling.register_scalable_target(MinCapacity=0, MaxCapacity=1, **target)
        arn = autoscaling.put_scaling_policy(
            PolicyName="from-zero",
            PolicyType="StepScaling",
            StepScalingPolicyConfiguration={
                "AdjustmentType": "ChangeInCapacity",
                "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
            },
            **target,
        )["PolicyARN"]
        cloudwatch.put_metric_alarm(
            AlarmName="backlog",
            Namespace="AWS/SageMaker",
            MetricName="HasBacklogWithoutCapacity",
            Dimensions=[{"Name": "EndpointName", "Value": "zero"}],
            Statistic="Maximum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
            AlarmActions=[arn],
        )
        answers = [json.loads(read(client, response["OutputLocation"])) for response in responses]
        assert [answer["text"] for answer in answers] == ["0", "1", "2"]
        assert len({answer["pid"] for answer in answers}) == 1


@pytest.mark.soak
def test_request_in_progress_is_answered_after_a_kill(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        create_endpoint(client, "killed")
        response = invoke(client, "killed", "wait 3")
        time.sleep(1)
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        assert json.loads(read(client, response["OutputLocation"]))["text"] == "wait 3"


def test_wrong_requests_are_refused(endpoints: Any, drydock: Any) -> None:
    if "fails" not in {item["EndpointName"] for item in endpoints.sagemaker.list_endpoints()["Endpoints"]}:
        create_endpoint(endpoints, "fails")
    endpoints.create_endpoint("now")
    client = drydock.create_unchecked_client("sagemaker-runtime")
    wrong_requests: list[tuple[dict[str, Any], str]] = [
        ({"EndpointName": "now", "InputLocation": "s3://bucket/x"}, "has no AsyncInferenceConfig: use InvokeEndpoint"),
        (
            {"EndpointName": "nowhere", "InputLocation": "s3://bucket/x"},
            "Endpoint nowhere of account 123456789012 not found",
        ),
        ({"EndpointName": "fails"}, "either InputLocation or a body"),
        ({"EndpointName": "fails", "Body": b"x" * 128_001}, "128001 bytes; more than 128000 bytes need InputLocation"),
        ({"EndpointName": "fails", "InputLocation": "file:///x"}, "failed to satisfy constraint"),
        ({"EndpointName": "fails", "Body": b"x", "RequestTTLSeconds": 1}, "greater than or equal to 60"),
        ({"EndpointName": "fails", "Body": b"x", "Filename": "a.b.c"}, "failed to satisfy constraint"),
    ]
    for request, message in wrong_requests:
        with pytest.raises(ClientError, match=rf"ValidationError.*{message}"):
            client.invoke_endpoint_async(**request)
    with pytest.raises(ClientError, match="Endpoint fails is asynchronous: use InvokeEndpointAsync"):
        endpoints.invoke("fails")
    with pytest.raises(ClientError, match="must have S3OutputPath"):
        endpoints.sagemaker.create_endpoint_config(
            EndpointConfigName="wrong",
            ProductionVariants=[endpoints.build_variant("fails")],
            AsyncInferenceConfig={"OutputConfig": {}},
        )
