"""Test endpoints of the docker executor: each instance is a container of a real engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from drydock.execution.container_creation import TREE_LABEL
from drydock.execution.engine import run_docker

OPTIONS = ("--executor", "docker", "--stop-grace", "1", "--shutdown-grace", "1")
ROLE = "arn:aws:iam::123456789012:role/drydock"
# The server of an image of its own, which reads the model at /opt/ml/model.
OWN_SERVER = """
import http.server, json, pathlib, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ping" else 404)
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        content = {"model": pathlib.Path("/opt/ml/model/weights").read_text(), "text": body, "words": sys.argv[1:]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

http.server.HTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


def list_containers(server: Any, name: str) -> list[str]:
    """Return the ids of an endpoint's containers, whether they run or not."""
    rows = run_docker(
        "ps", "--all", "--no-trunc", "--format", f'{{{{.ID}}}} {{{{.Label "{TREE_LABEL}"}}}}'
    ).splitlines()
    folder = (server.data / "endpoints" / "123456789012" / "us-east-1" / name).resolve()
    trees = [row.partition(" ") for row in rows]
    return [container for container, _, tree in trees if tree and Path(tree).is_relative_to(folder)]


@pytest.fixture(scope="module")
def containers(
    tmp_path_factory: pytest.TempPathFactory, start_drydock: Any, make_client: Any, image: str
) -> Iterator[Any]:
    """Return the calls, for a server whose endpoints run in containers."""
    with start_drydock(tmp_path_factory.mktemp("containers"), *OPTIONS) as server:
        client = make_client(server)
        client.image = image
        yield client


def test_container_serves_at_port_8080_which_only_this_machine_can_reach(containers: Any) -> None:
    containers.create_endpoint("served")
    assert containers.invoke("served")["model"] == "served-main"
    (container,) = list_containers(containers.server, "served")
    (content,) = json.loads(run_docker("container", "inspect", container))
    addresses = content["NetworkSettings"]["Ports"]["8080/tcp"]
    assert [address["HostIp"] for address in addresses] == ["127.0.0.1"]
    assert content["HostConfig"]["NetworkMode"] != "host" and content["HostConfig"]["Memory"] > 0
    logs = containers.server.client("logs")
    group = "/aws/sagemaker/Endpoints/served"
    (stream,) = logs.describe_log_streams(logGroupName=group)["logStreams"]
    events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
    assert "loading served-main" in [event["message"] for event in events]

    def read_memory() -> float:
        return float(containers.read_statistic("MemoryUtilization", "Maximum", "served", "/aws/sagemaker/Endpoints"))

    containers.server.wait_until("the engine's usage", lambda: read_memory() > 0)
    containers.sagemaker.delete_endpoint(EndpointName="served")
    containers.wait_for_end("served")
    assert list_containers(containers.server, "served") == []


def test_container_that_ends_is_replaced_and_counted(containers: Any) -> None:
    containers.create_endpoint("ends")
    (container,) = list_containers(containers.server, "ends")
    before = containers.server.get_health()["instance_restarts"]
    run_docker("kill", container)
    assert containers.invoke("ends")["text"] == "hello", "the request waits for the next container"
    (next_container,) = list_containers(containers.server, "ends")
    assert next_container != container
    assert containers.server.get_health()["instance_restarts"] == before + 1


def test_model_that_does_not_load_and_an_unknown_image_fail_the_endpoint(containers: Any) -> None:
    containers.create_model("broken", FAIL="no such feature")
    containers.image = "no-such/image:1"
    containers.create_model("unknown")
    containers.image = "drydock-test-python:latest"
    for name, reason in {"broken": "RuntimeError: no such feature", "unknown": "no image no-such/image:1"}.items():
        containers.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[containers.build_variant(name)]
        )
        containers.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        assert reason in containers.wait_for_status(name, "Failed")["FailureReason"]
        assert list_containers(containers.server, name) == []


def test_model_without_code_is_served_by_the_entrypoint_of_its_image(
    containers: Any, tmp_path: Path, image: str
) -> None:
    (tmp_path / "server.py").write_text(OWN_SERVER)
    (tmp_path / "Dockerfile").write_text(
        f'FROM {image}\nCOPY server.py /program/server.py\nWORKDIR /program\nENTRYPOINT ["python3", "server.py"]\n'
    )
    run_docker("build", "--tag", "drydock-test-server", str(tmp_path))
    try:
        uri = containers.server.put("models/entry.tar.gz", containers.server.pack_archive({"weights": "12"}))
        container = {"Image": "drydock-test-server", "ModelDataUrl": uri}
        containers.sagemaker.create_model(ModelName="entry", PrimaryContainer=container, ExecutionRoleArn=ROLE)
        containers.sagemaker.create_endpoint_config(
            EndpointConfigName="entry", ProductionVariants=[containers.build_variant("entry")]
        )
        containers.sagemaker.create_endpoint(EndpointName="entry", EndpointConfigName="entry")
        containers.wait_for_status("entry", "InService")
        answer = containers.invoke("entry", "a,b")
        assert (answer["model"], answer["text"], answer["words"]) == ("12", "a,b", ["serve"])
        containers.sagemaker.delete_endpoint(EndpointName="entry")
        containers.wait_for_end("entry")
    finally:
        run_docker("image", "rm", "--force", "drydock-test-server")


def test_killed_server_brings_the_endpoint_back_with_one_container(
    tmp_path: Path, run_drydock: Any, make_client: Any, image: str
) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.image = image
        client.create_endpoint("back")
        (container,) = list_containers(server, "back")
        server.process.kill()
        server.process.wait(60)
        (tmp_path / "port").unlink()
        assert list_containers(server, "back") == [container], "nobody ends it with the server"
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        assert client.invoke("back")["model"] == "back-main"
        (next_container,) = list_containers(server, "back")
        assert next_container != container
        with pytest.raises(ClientError, match=r"ModelError.*process ended while it answered"):
            client.invoke("back", "crash")
        assert client.invoke("back")["text"] == "hello"
    assert list_containers(server, "back") == []
