"""Test endpoints: their states, invocations, and what survives the end of a process."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stack.jobs.serving_hint import format_endpoint_call
from tests.tools.processes import is_alive

OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1")


def test_endpoint_serves_its_model_and_disappears(endpoints: Any, drydock: Any) -> None:
    endpoints.create_config("life", main=1.0)
    arn = endpoints.sagemaker.create_endpoint(EndpointName="life", EndpointConfigName="life")["EndpointArn"]
    assert endpoints.describe("life")["EndpointStatus"] in ("Creating", "InService")
    description = endpoints.wait_for_status("life", "InService")
    (variant,) = description["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (1, 1.0)
    assert (description["EndpointArn"], description["EndpointConfigName"]) == (arn, "life")
    answer = endpoints.invoke("life", "1,2")
    assert (answer["model"], answer["text"], answer["type"], answer["variant"]) == (
        "life-main",
        "1,2",
        "text/csv",
        "main",
    )
    assert [item["EndpointName"] for item in endpoints.sagemaker.list_endpoints(NameContains="lif")["Endpoints"]] == [
        "life"
    ]
    endpoints.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "owner", "Value": "me"}])
    assert endpoints.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "owner", "Value": "me"}]
    endpoints.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["owner"])
    assert endpoints.sagemaker.list_tags(ResourceArn=arn)["Tags"] == []
    modified_at = endpoints.describe("life")["LastModifiedTime"]
    assert modified_at == description["LastModifiedTime"], "tags are no change of the endpoint"
    lines = ["loading life-main", "serving the model"]
    drydock.wait_until("its log", lambda: drydock.read_full_log("main", "/aws/sagemaker/Endpoints/life") == lines)
    endpoints.sagemaker.delete_endpoint(EndpointName="life")
    drydock.wait_until("the end of the process", lambda: not is_alive(answer["pid"]))
    drydock.wait_until(
        "the end of life", lambda: not endpoints.sagemaker.list_endpoints(NameContains="lif")["Endpoints"]
    )
    with pytest.raises(ClientError, match=r"ValidationError.* Endpoint life of account 123456789012 not found"):
        endpoints.invoke("life")
    with pytest.raises(ClientError, match="Could not find endpoint"):
        endpoints.describe("life")
    assert not list((drydock.data / "endpoints").rglob("*.process.json"))


def test_variants_share_the_requests_by_weight(endpoints: Any) -> None:
    endpoints.create_endpoint("shares", a=1.0, b=3.0)
    answers = [endpoints.invoke("shares") for _ in range(80)]
    assert all(answer["model"] == f"shares-{answer['variant']}" for answer in answers)
    assert 40 <= sum(answer["variant"] == "b" for answer in answers) < 80
    assert endpoints.invoke("shares", TargetVariant="a")["variant"] == "a"
    with pytest.raises(ClientError, match=r"ValidationError.*Variant c not found.*endpoint shares are a, b"):
        endpoints.invoke("shares", TargetVariant="c")
    weights = [{"VariantName": "a", "DesiredWeight": 0.0}, {"VariantName": "b", "DesiredInstanceCount": 2}]
    endpoints.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="shares", DesiredWeightsAndCapacities=weights
    )
    description = endpoints.wait_for_status("shares", "InService")
    assert [variant["CurrentInstanceCount"] for variant in description["ProductionVariants"]] == [1, 2]
    answers = [endpoints.invoke("shares") for _ in range(20)]
    assert {answer["variant"] for answer in answers} == {"b"}
    assert len({answer["pid"] for answer in answers}) == 2
    with pytest.raises(ClientError, match="sum of the weights"):
        endpoints.scale("shares", {"VariantName": "b", "DesiredWeight": 0.0})


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [("refuse", 422, "row 1, column x: 'a' is not a double"), ("bug", 500, "KeyError: 'x'")],
)
def test_error_of_the_model_has_its_status_and_text(endpoints: Any, text: str, status: int, message: str) -> None:
    endpoints.ensure_endpoint("errors")
    with pytest.raises(ClientError) as error:
        endpoints.invoke("errors", text)
    response = error.value.response
    assert response["Error"]["Code"] == "ModelError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert (response["OriginalStatusCode"], message in response["OriginalMessage"]) == (status, True)
    assert ":log-group:/aws/sagemaker/Endpoints/errors:log-stream:main/i-" in response["LogStreamArn"]
    assert endpoints.invoke("errors")["text"] == "hello"


def test_custom_attributes_reach_the_model_which_may_set_those_of_the_response(endpoints: Any) -> None:
    """The control is a request whose answer sets none."""
    endpoints.ensure_endpoint("errors")
    request = {"EndpointName": "errors", "ContentType": "text/csv", "CustomAttributes": "trace=9", "InferenceId": "i-7"}
    response = endpoints.runtime.invoke_endpoint(Body=b"attributes", **request)
    assert response["CustomAttributes"] == "trace=9 i-7"
    assert "CustomAttributes" not in endpoints.runtime.invoke_endpoint(Body=b"hello", **request)
    with pytest.raises(ClientError, match="response must be at most 1024 visible ASCII characters"):
        endpoints.runtime.invoke_endpoint(Body=b"attributes\n", **request)


def test_curl_calls_an_endpoint_as_the_demo_prints_it(endpoints: Any, drydock: Any) -> None:
    endpoints.ensure_endpoint("errors")
    script = "row='[1, \"a b\"]'\n" + format_endpoint_call(drydock.url, "errors")
    process = subprocess.run(["bash", "-ec", script], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout)
    assert (answer["text"], answer["type"]) == ('[1, "a b"]', "application/json")


def test_a_body_that_is_no_text_is_the_error_of_the_client(endpoints: Any) -> None:
    endpoints.ensure_endpoint("errors")
    with pytest.raises(ClientError, match="the body is not text/csv: 'utf-8' codec can't decode byte 0xff") as error:
        endpoints.runtime.invoke_endpoint(EndpointName="errors", ContentType="text/csv", Body=b"\xff")
    assert error.value.response["OriginalStatusCode"] == 400


def test_too_large_request_is_refused_and_the_endpoint_keeps_serving(endpoints: Any, drydock: Any) -> None:
    endpoints.ensure_endpoint("errors")
    client = drydock.create_unchecked_client("sagemaker-runtime")
    with pytest.raises(ClientError, match=r"ValidationError.*7340032 bytes is larger than the limit of 6291456"):
        client.invoke_endpoint(EndpointName="errors", Body=b"x" * (7 << 20), ContentType="text/csv")
    with pytest.raises(ClientError, match=r"'inferenceId' failed to satisfy constraint: .* equal to 64"):
        client.invoke_endpoint(EndpointName="errors", Body=b"x", ContentType="text/csv", InferenceId="i" * 65)
    assert endpoints.invoke("errors", f"large 3 {'x' * ((6 << 20) - 8)}", InferenceId="i" * 64)["text"] == "xxx"


def test_too_large_answer_is_an_error_of_the_model(endpoints: Any) -> None:
    endpoints.ensure_endpoint("errors")
    largest = (6 << 20) - len('{"text": ""}')
    assert len(endpoints.invoke("errors", f"large {largest}")["text"]) == largest
    with pytest.raises(ClientError, match=r"ModelError.*answer of 6291457 bytes is larger than the limit of 6291456"):
        endpoints.invoke("errors", f"large {largest + 1}")


def test_killed_process_of_a_model_is_replaced_and_no_request_fails(endpoints: Any) -> None:
    endpoints.create_endpoint("killed")
    restarts = endpoints.server.get_health()["instance_restarts"]
    before = endpoints.invoke("killed")["pid"]
    slow: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: slow.append(endpoints.invoke("killed", "wait 0.5")))
    thread.start()
    os.kill(before, signal.SIGKILL)
    after = endpoints.invoke("killed")["pid"]
    thread.join()
    assert after != before
    assert slow[0]["pid"] == after
    assert endpoints.describe("killed")["EndpointStatus"] == "InService"
    assert endpoints.server.get_health()["instance_restarts"] == restarts + 1


def test_request_that_ends_the_process_fails_and_the_endpoint_recovers(endpoints: Any) -> None:
    endpoints.create_endpoint("crash")
    with pytest.raises(ClientError, match=r"ModelError.*process ended while it answered"):
        endpoints.invoke("crash", "crash")
    assert endpoints.invoke("crash")["text"] == "hello"


def test_model_that_does_not_load_fails_the_endpoint_with_its_last_log_lines(endpoints: Any, drydock: Any) -> None:
    endpoints.create_model("broken", FAIL="no such feature: departures_hour")
    endpoints.sagemaker.create_endpoint_config(
        EndpointConfigName="broken", ProductionVariants=[endpoints.build_variant("broken")]
    )
    endpoints.sagemaker.create_endpoint(EndpointName="broken", EndpointConfigName="broken")
    description = endpoints.wait_for_status("broken", "Failed")
    reason = description["FailureReason"]
    assert "production variant main did not pass the ping health check. The end of its log: " in reason
    assert reason.endswith("| RuntimeError: no such feature: departures_hour")
    assert "\n" not in reason and reason.count("no such feature") == 1
    assert not list((drydock.data / "endpoints" / "123456789012" / "us-east-1" / "broken").iterdir())
    with pytest.raises(ClientError, match="its status is Failed, not InService"):
        endpoints.sagemaker.update_endpoint(EndpointName="broken", EndpointConfigName="broken")
    endpoints.sagemaker.delete_endpoint(EndpointName="broken")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ModelName": "unknown"}, "Could not find model"),
        ({"InitialVariantWeight": -1.0}, "greater than or equal to 0"),
        ({"InitialVariantWeight": 0.0}, "sum of the weights of all production variants must be greater than 0"),
        ({"InitialInstanceCount": 21}, "at most 20 instances, not 21"),
        ({"InstanceType": None}, "must have InstanceType"),
        ({"ManagedInstanceScaling": {"Status": "ENABLED"}}, "only supported for inference component endpoints"),
        ({"ManagedInstanceScaling": {"Status": "ON"}}, "Member must satisfy enum value set"),
        ({"ManagedInstanceScaling": {"MaxInstanceCount": 0}}, "Member must have value greater than or equal to 1"),
        (
            {"ManagedInstanceScaling": {"Status": "DISABLED", "MinInstanceCount": 3, "MaxInstanceCount": 2}},
            r"MinInstanceCount \(3\) must be less than or equal to MaxInstanceCount \(2\)",
        ),
    ],
)
def test_wrong_configuration_is_refused(endpoints: Any, drydock: Any, fields: dict[str, Any], message: str) -> None:
    endpoints.ensure_endpoint("errors")
    variant = {
        key: value for key, value in (endpoints.build_variant("errors-main") | fields).items() if value is not None
    }
    client = drydock.create_unchecked_client("sagemaker")
    with pytest.raises(ClientError, match=message):
        client.create_endpoint_config(EndpointConfigName="wrong", ProductionVariants=[variant])
    with pytest.raises(ClientError, match="Could not find endpoint configuration"):
        client.describe_endpoint_config(EndpointConfigName="wrong")


def test_managed_instance_scaling_that_is_disabled_is_shown(endpoints: Any) -> None:
    endpoints.create_model("managed")
    scaling = {"Status": "DISABLED", "MinInstanceCount": 1, "MaxInstanceCount": 3}
    endpoints.sagemaker.create_endpoint_config(
        EndpointConfigName="managed",
        ProductionVariants=[endpoints.build_variant("managed", ManagedInstanceScaling=scaling)],
    )
    endpoints.sagemaker.create_endpoint(EndpointName="managed", EndpointConfigName="managed")
    (variant,) = endpoints.wait_for_status("managed", "InService")["ProductionVariants"]
    assert (variant["ManagedInstanceScaling"], variant["DesiredInstanceCount"]) == (scaling, 1)
    config = endpoints.sagemaker.describe_endpoint_config(EndpointConfigName="managed")
    assert config["ProductionVariants"][0]["ManagedInstanceScaling"] == scaling


def test_names_in_use_are_refused(endpoints: Any) -> None:
    """As on AWS, names of endpoints that differ only in their case are the same name when one is created."""
    endpoints.ensure_endpoint("errors")
    for name in ("errors", "Errors"):
        with pytest.raises(ClientError, match="Cannot create already existing endpoint "):
            endpoints.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName="errors")
    with pytest.raises(ClientError, match="Cannot create already existing endpoint configuration"):
        endpoints.sagemaker.create_endpoint_config(
            EndpointConfigName="errors", ProductionVariants=[endpoints.build_variant("errors-main")]
        )
    with pytest.raises(ClientError, match="Could not find endpoint configuration"):
        endpoints.sagemaker.create_endpoint(EndpointName="other", EndpointConfigName="unknown")


def test_killed_server_brings_every_endpoint_back(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_endpoint("back", a=1.0, b=1.0)
        pids = {client.invoke("back", TargetVariant=variant)["pid"] for variant in "ab"}
        client.create_config("next", main=1.0)
        client.sagemaker.update_endpoint(EndpointName="back", EndpointConfigName="next")
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        assert not any(is_alive(pid) for pid in pids)
        assert client.invoke("back")["model"] in ("back-a", "back-b", "next-main"), "it answers during the update"
        server.wait_until("the update", lambda: client.describe("back")["EndpointConfigName"] == "next")
        client.wait_for_status("back", "InService")
        assert client.invoke("back")["model"] == "next-main"
        assert client.sagemaker.describe_model(ModelName="back-a")["PrimaryContainer"]["Environment"] == {
            "NAME": "back-a"
        }
        assert len(client.sagemaker.list_endpoint_configs()["EndpointConfigs"]) == 2
