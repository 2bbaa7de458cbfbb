"""Test serverless variants: no process while idle, a cold start at the first request, throttling."""

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

OPTIONS = ("--cores", "2", "--stop-grace", "1", "--shutdown-grace", "1", "--serverless-idle")


@pytest.fixture(scope="module")
def sleepy(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any, make_client: Any) -> Iterator[Any]:
    """Return the calls, for a server whose serverless variants end after one second without a request."""
    with start_drydock(tmp_path_factory.mktemp("sleepy"), *OPTIONS, "1") as server:
        yield make_client(server)


def invoke_together(client: Any, name: str, text: str, count: int) -> list[Any]:
    """Send requests at the same time. Return the process of each answer, or the code of the error."""
    results: list[Any] = []

    def invoke() -> None:
        try:
            results.append(client.invoke(name, text)["pid"])
        except ClientError as error:
            results.append(error.response)

    threads = [threading.Thread(target=invoke) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_idle_variant_has_no_process_and_the_next_request_starts_one(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("idle")
    first = sleepy.invoke("idle")["pid"]
    assert sleepy.invoke("idle")["pid"] == first
    sleepy.server.wait_until("no process", lambda: not sleepy.list_processes("idle"))
    description = sleepy.describe("idle")
    assert description["EndpointStatus"] == "InService"
    (variant,) = description["ProductionVariants"]
    assert variant["CurrentServerlessConfig"] == {"MemorySizeInMB": 1024, "MaxConcurrency": 2}
    assert (variant["CurrentInstanceCount"], "DesiredInstanceCount" in variant) == (0, False)
    starts = sleepy.read_statistic("ModelSetupTime", "SampleCount", "idle")
    assert sleepy.invoke("idle")["pid"] != first
    assert len(sleepy.list_processes("idle")) == 1
    # On a slow machine, the process that loaded the model at the creation ends before the first request.
    earlier_starts = 0 if math.isnan(starts) else starts
    # The metric is recorded when the instance is ready, and the request may be answered a little earlier.
    sleepy.server.wait_until(
        "the metric of the cold start",
        lambda: sleepy.read_statistic("ModelSetupTime", "SampleCount", "idle") == earlier_starts + 1,
    )
    assert sleepy.read_statistic("ModelLatency", "Maximum", "idle") < sleepy.read_statistic(
        "ModelSetupTime", "Minimum", "idle"
    ), "the cold start is overhead"


def test_more_than_max_concurrency_is_throttled_and_each_process_has_one_request(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("busy", MaxConcurrency=2)
    results = invoke_together(sleepy, "busy", "wait 2", 3)
    pids = [result for result in results if isinstance(result, int)]
    (error_response,) = [result for result in results if not isinstance(result, int)]
    assert len(set(pids)) == 2, "each request has a process of its own"
    assert error_response["Error"]["Code"] == "ThrottlingException"
    assert error_response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert sleepy.invoke("busy")["text"] == "hello", "later there is room again"


def test_requests_wait_if_every_core_has_a_process(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("cores", MaxConcurrency=4)
    pids = invoke_together(sleepy, "cores", "wait 0.2", 4)
    assert len(set(pids)) <= 2 and all(isinstance(pid, int) for pid in pids)


def test_provisioned_concurrency_keeps_processes_and_can_be_changed(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("warm", ProvisionedConcurrency=1)
    pid = sleepy.invoke("warm")["pid"]
    update = {"MaxConcurrency": 3, "ProvisionedConcurrency": 2}
    sleepy.scale("warm", {"VariantName": "main", "ServerlessUpdateConfig": update})
    sleepy.wait_for_status("warm", "InService")
    assert len(sleepy.list_processes("warm")) == 2
    (variant,) = sleepy.describe("warm")["ProductionVariants"]
    assert variant["CurrentServerlessConfig"] == {"MemorySizeInMB": 1024, **update}
    assert pid in {sleepy.invoke("warm")["pid"] for _ in range(4)}
    with pytest.raises(ClientError, match=r"ProvisionedConcurrency \(4\) must be less than or equal to"):
        sleepy.scale("warm", {"VariantName": "main", "ServerlessUpdateConfig": {"ProvisionedConcurrency": 4}})
    with pytest.raises(ClientError, match="use ServerlessUpdateConfig, not DesiredInstanceCount"):
        sleepy.scale("warm", {"VariantName": "main", "DesiredInstanceCount": 2})
    sleepy.create_config("warm-instances", main=1.0)
    with pytest.raises(ClientError, match="cannot turn instances into a serverless variant"):
        sleepy.sagemaker.update_endpoint(EndpointName="warm", EndpointConfigName="warm-instances")


def test_model_that_does_not_load_fails_the_endpoint_and_later_the_request(sleepy: Any) -> None:
    sleepy.create_model("never", FAIL="no such feature")
    variants = [sleepy.build_serverless_variant("never")]
    sleepy.sagemaker.create_endpoint_config(EndpointConfigName="never", ProductionVariants=variants)
    sleepy.sagemaker.create_endpoint(EndpointName="never", EndpointConfigName="never")
    assert "no such feature" in sleepy.wait_for_status("never", "Failed")["FailureReason"]
    sleepy.create_serverless_endpoint("lost")
    sleepy.server.wait_until("no process", lambda: not sleepy.list_processes("lost"))
    sleepy.server.client("s3").delete_object(Bucket="bucket", Key="models/lost.tar.gz")
    with pytest.raises(ClientError, match=r"ModelError.*Failed to download model data"):
        sleepy.invoke("lost")


@pytest.mark.soak
def test_update_replaces_a_serverless_variant_but_not_by_instances(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("old")
    sleepy.create_serverless_endpoint("new")
    sleepy.create_config("instances", main=1.0)
    with pytest.raises(ClientError, match="cannot turn instances into a serverless variant"):
        sleepy.sagemaker.update_endpoint(EndpointName="old", EndpointConfigName="instances")
    sleepy.sagemaker.update_endpoint(EndpointName="old", EndpointConfigName="new")
    sleepy.wait_for_status("old", "InService")
    assert sleepy.invoke("old")["model"] == "new"


@pytest.mark.parametrize(
    ("fields", "serverless", "message"),
    [
        ({}, {"MemorySizeInMB": 1500}, "MemorySizeInMB must be one of 1024, 2048"),
        ({}, {"MemorySizeInMB": 512}, "memorySizeInMB' failed to satisfy constraint: Member must have value greater"),
        ({}, {"MaxConcurrency": 201}, "Member must have value less than or equal to 200"),
        ({}, {"ProvisionedConcurrency": 3}, "must be less than or equal to MaxConcurrency"),
        ({"InstanceType": "ml.m5.large"}, {}, "has ServerlessConfig, so it must not have InstanceType"),
        ({"InitialInstanceCount": 1}, {}, "must not have InitialInstanceCount"),
    ],
)
def test_wrong_serverless_configuration_is_refused(
    sleepy: Any, fields: dict[str, Any], serverless: dict[str, Any], message: str
) -> None:
    sleepy.ensure_endpoint("any")
    variant = sleepy.build_serverless_variant("any-main", **serverless) | fields
    client = sleepy.server.create_unchecked_client("sagemaker")
    with pytest.raises(ClientError, match=message):
        client.create_endpoint_config(EndpointConfigName="wrong", ProductionVariants=[variant])


def test_killed_server_answers_a_serverless_endpoint_again(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS, "60") as server:
        client = make_client(server)
        client.create_serverless_endpoint("kept", MaxConcurrency=1)
        pid = client.invoke("kept")["pid"]
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
    with run_drydock(tmp_path, *OPTIONS, "60") as server:
        client = make_client(server)
        client.wait_for_status("kept", "InService")
        assert client.list_processes("kept") == [], "nobody has sent a request yet"
        assert client.invoke("kept")["pid"] != pid
