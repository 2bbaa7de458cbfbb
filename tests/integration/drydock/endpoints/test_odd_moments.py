"""Test requests that come at odd moments: while instances start, right after a restart, and while others end."""

import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

OPTIONS = ("--stop-grace", "1", "--shutdown-grace", "1")


def list_models(server: Any) -> list[psutil.Process]:
    """Return the processes of the server that serve models."""
    processes = []
    for process in psutil.Process(server.process.pid).children(recursive=True):
        try:
            if process.cmdline()[-1].endswith("serve.py") and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except (psutil.Error, IndexError):
            continue
    return [process for process in processes if process.ppid() != server.process.pid]  # not the launchers


def restart(server: Any, folder: Path) -> None:
    """Kill a server by SIGKILL, so that another one can start in its folder."""
    server.process.kill()
    server.process.wait(60)
    (folder / "port").unlink()


def test_endpoint_that_is_deleted_while_its_model_loads_leaves_no_process(endpoints: Any, drydock: Any) -> None:
    before = len(list_models(drydock))
    endpoints.create_config("hangs", {"LOAD_S": "600"}, main=1.0)
    endpoints.sagemaker.create_endpoint(EndpointName="hangs", EndpointConfigName="hangs")
    drydock.wait_until("its process", lambda: len(list_models(drydock)) == before + 1)
    endpoints.sagemaker.delete_endpoint(EndpointName="hangs")
    endpoints.wait_for_end("hangs")
    drydock.wait_until("the end of its process", lambda: len(list_models(drydock)) == before)


@pytest.mark.soak
def test_name_of_a_deleted_endpoint_can_be_used_again(tmp_path: Path, run_drydock: Any, make_client: Any) -> None:
    with run_drydock(tmp_path, "--stop-grace", "600") as server:
        endpoints = make_client(server)
        endpoints.create_endpoint("again")
        process = list_models(server)[0]
        process.suspend()  # so the deletion takes until it is resumed
        endpoints.sagemaker.delete_endpoint(EndpointName="again")
        endpoints.sagemaker.delete_endpoint(EndpointName="again")
        assert endpoints.describe("again")["EndpointStatus"] == "Deleting"
        process.resume()
        endpoints.wait_for_end("again")
        endpoints.sagemaker.create_endpoint(EndpointName="again", EndpointConfigName="again")
        endpoints.wait_for_status("again", "InService")
        time.sleep(1)  # the second deletion must not reach the new endpoint
        assert endpoints.invoke("again")["model"] == "again-main"


def test_deletion_is_not_taken_back_by_the_end_of_a_change(endpoints: Any) -> None:
    endpoints.create_config("slow", {"LOAD_S": "1"}, main=1.0)
    endpoints.sagemaker.create_endpoint(EndpointName="slow", EndpointConfigName="slow")
    endpoints.wait_for_status("slow", "InService")
    endpoints.scale("slow", {"VariantName": "main", "DesiredInstanceCount": 2})
    endpoints.sagemaker.delete_endpoint(EndpointName="slow")
    statuses = set()
    while endpoints.sagemaker.list_endpoints(NameContains="slow")["Endpoints"]:
        statuses |= {
            item["EndpointStatus"] for item in endpoints.sagemaker.list_endpoints(NameContains="slow")["Endpoints"]
        }
    assert statuses <= {"Deleting"}


@pytest.mark.soak
def test_changes_around_a_kill_are_kept_and_leave_the_right_number_of_processes(
    tmp_path: Path, run_drydock: Any, make_client: Any
) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_config("kept", {"LOAD_S": "1"}, a=1.0, b=1.0)
        client.sagemaker.create_endpoint(EndpointName="kept", EndpointConfigName="kept")
        client.wait_for_status("kept", "InService")
        client.scale(
            "kept", {"VariantName": "a", "DesiredInstanceCount": 2}, {"VariantName": "b", "DesiredWeight": 0.0}
        )
        restart(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        description = client.wait_for_status("kept", "InService")
        values = [(item["DesiredInstanceCount"], item["DesiredWeight"]) for item in description["ProductionVariants"]]
        assert values == [(2, 1.0), (1, 0.0)]
        assert len(list_models(server)) == 3
        restart(server, tmp_path)
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_config("next", main=1.0)
        client.sagemaker.update_endpoint(EndpointName="kept", EndpointConfigName="next")  # while its instances start
        server.wait_until("the update", lambda: client.describe("kept")["EndpointConfigName"] == "next")
        client.wait_for_status("kept", "InService")
        assert client.invoke("kept")["model"] == "next-main"
        server.wait_until("one process", lambda: len(list_models(server)) == 1)


def test_reset_of_moto_deletes_endpoints_while_their_logs_are_moved(
    tmp_path: Path, run_drydock: Any, make_client: Any
) -> None:
    with run_drydock(tmp_path, *OPTIONS) as server:
        client = make_client(server)
        client.create_endpoint("reset")
        process = list_models(server)[0]
        process.kill()
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=180) as connection:
            connection.sendall(b"POST /moto-api/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            assert b" 200 " in connection.recv(100)
        assert client.sagemaker.list_endpoints()["Endpoints"] == []
        server.wait_until("the end of all processes", lambda: not list_models(server))


@pytest.mark.parametrize(
    ("head", "body", "answer"),
    [
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", b'"text": "hello"'),
        ("Content-Length: 100", b"hello", b"shorter than its Content-Length"),
    ],
)
def test_body_arrives_whole_or_is_refused(endpoints: Any, drydock: Any, head: str, body: bytes, answer: bytes) -> None:
    endpoints.ensure_endpoint("bodies")
    scope = "Credential=test/20250101/us-east-1/sagemaker/aws4_request"
    lines = [
        "POST /endpoints/bodies/invocations HTTP/1.1",
        "Host: localhost",
        f"Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0",
        "Content-Type: text/csv",
        head,
    ]
    with socket.create_connection(("127.0.0.1", int(drydock.url.rpartition(":")[2])), timeout=180) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        response = b""
        while part := connection.recv(4096):
            response += part
    assert answer in response


def test_unsigned_invocation_says_how_to_sign_it(endpoints: Any, drydock: Any) -> None:
    endpoints.ensure_endpoint("bodies")
    request = urllib.request.Request(f"{drydock.url}/endpoints/bodies/invocations", data=b"1")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    content = json.load(error.value)
    assert (error.value.code, content["__type"]) == (403, "MissingAuthenticationToken")
    assert "curl --aws-sigv4" in content["message"]


@pytest.mark.parametrize("weight", ["NaN", "Infinity", "1" + "0" * 400])
def test_weight_that_is_no_finite_number_is_refused(endpoints: Any, drydock: Any, weight: str) -> None:
    endpoints.ensure_endpoint("bodies")
    variant = json.dumps(endpoints.build_variant("bodies-main", weight=7.5)).replace("7.5", weight)
    body = f'{{"EndpointConfigName": "infinite", "ProductionVariants": [{variant}]}}'
    status, code, message = drydock.send_raw("CreateEndpointConfig", body.encode())
    assert (status, code) == (400, "ValidationException")
    assert "weight of a variant must be a number up to 1e+30" in message
