"""Test the process of a serverless variant that has imported the libraries of its model and waits for a request."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

OPTIONS = ("--cores", "2", "--stop-grace", "1", "--shutdown-grace", "1", "--serverless-idle", "1")
LIBRARY = {"LIBRARIES": "psutil"}


@pytest.fixture(scope="module")
def sleepy(tmp_path_factory: pytest.TempPathFactory, start_drydock: Any, make_client: Any) -> Iterator[Any]:
    """Return the calls, for a server whose serverless variants end after one second without a request."""
    with start_drydock(tmp_path_factory.mktemp("standbys"), *OPTIONS) as server:
        yield make_client(server)


def wait_for_standby(client: Any, name: str, *, other_than: str = "") -> str:
    """Wait until an endpoint has one process, the standby process, and return the name of its instance."""

    def find() -> str | None:
        names = client.list_processes(name)
        is_alone = len(names) == 1 and names[0] != other_than
        return names[0] if is_alone and client.server.get_health()["standby_processes"] == 1 else None

    return str(client.server.wait_until("a standby process", find))


def read_launcher(client: Any, name: str, instance: str) -> psutil.Process:
    """Return the process that starts the model's process of an instance."""
    folder = client.server.data / "endpoints" / "123456789012" / "us-east-1" / name
    return psutil.Process(json.loads((folder / f"{instance}.process.json").read_text())["pid"])


def test_cold_start_uses_the_standby_process_and_another_one_replaces_it(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("ready", LIBRARY)
    # On a busy machine, the first process may have ended after its idle second, and then the standby process answers.
    # `test_killed_server_leaves_no_standby_process` shows that a first process has imported nothing ahead of time.
    assert sleepy.invoke("ready")["text"] == "hello"
    instance = wait_for_standby(sleepy, "ready")
    launcher = read_launcher(sleepy, "ready", instance)
    assert sleepy.describe("ready")["ProductionVariants"][0]["CurrentInstanceCount"] == 0
    answer = sleepy.invoke("ready")
    assert answer["present"] == ["psutil"], "imported before the model's code"
    assert psutil.Process(answer["pid"]).ppid() == launcher.pid
    assert wait_for_standby(sleepy, "ready", other_than=instance) != instance
    assert not launcher.is_running(), "the process that answered was idle"
    lines = sleepy.server.client("logs").get_log_events(
        logGroupName="/aws/sagemaker/Endpoints/ready", logStreamName=find_stream(sleepy, "ready", instance)
    )["events"]
    assert [event["message"] for event in lines] == ["loading ready", "serving the model"], "nothing else is logged"
    sleepy.sagemaker.delete_endpoint(EndpointName="ready")
    sleepy.wait_for_end("ready")
    assert sleepy.list_processes("ready") == [] and sleepy.server.get_health()["standby_processes"] == 0


def find_stream(client: Any, name: str, instance: str) -> str:
    """Return the log stream of an instance."""
    group = f"/aws/sagemaker/Endpoints/{name}"
    streams = client.server.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
    return next(stream["logStreamName"] for stream in streams if instance in stream["logStreamName"])


def test_model_without_libraries_has_no_standby_process(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("light")
    assert sleepy.invoke("light")["present"] == []
    sleepy.server.wait_until("no process", lambda: not sleepy.list_processes("light"))
    time.sleep(1)
    assert sleepy.list_processes("light") == []


@pytest.mark.soak
def test_killed_standby_process_is_replaced(sleepy: Any) -> None:
    sleepy.create_serverless_endpoint("killed", LIBRARY)
    instance = wait_for_standby(sleepy, "killed")
    for process in (launcher := read_launcher(sleepy, "killed", instance)).children():
        process.kill()
    launcher.wait(60)
    assert sleepy.invoke("killed")["text"] == "hello", "a request does not need it"
    wait_for_standby(sleepy, "killed", other_than=instance)
    assert sleepy.invoke("killed")["present"] == ["psutil"]
    assert sleepy.describe("killed")["EndpointStatus"] == "InService"
    assert sleepy.server.get_health()["instance_restarts"] == 0, "it was no instance of the endpoint yet"


@pytest.mark.soak
def test_killed_server_leaves_no_standby_process(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_serverless_endpoint("kept", LIBRARY)
        launcher = read_launcher(client, "kept", wait_for_standby(client, "kept"))
        processes = [launcher, *launcher.children()]
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
        assert len(processes) == 2
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.wait_for_status("kept", "InService")
        assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)
        assert client.list_processes("kept") == [], "nobody has sent a request yet"
        assert client.invoke("kept")["present"] == []
        wait_for_standby(client, "kept")
