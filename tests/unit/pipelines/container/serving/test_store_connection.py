"""Requests to the online store are those of boto3's client, and so are its errors."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from pipelines.container.serving.online_records import OnlineRecords, StoreError
from pipelines.container.serving.store_connection import SERVICE, StoreConnection

IDENTIFIERS = [{"FeatureGroupName": "group", "RecordIdentifiersValueAsString": ['["JFK",8]']}]
EMPTY: dict[str, Any] = {"Records": [], "Errors": [], "UnprocessedIdentifiers": []}


class Store(HTTPServer):
    """Answers each request in the same way, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.headers = 200, json.dumps(EMPTY).encode(), {"Content-Type": "application/json"}
        self.requests: list[tuple[str, dict[str, str], bytes]] = []


class Handler(BaseHTTPRequestHandler):
    """Handles a connection."""

    server: Store

    def do_POST(self) -> None:
        """Keep the request, and answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        for name, value in {**self.server.headers, "Content-Length": str(len(self.server.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Return a store, which the environment names."""
    with Store() as server:
        variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_DEFAULT_REGION": "eu-west-3",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_request_is_that_of_boto3(store: Store) -> None:
    # boto3 signs all of its headers, and the connection fewer ones
    # A session of its own: the default one may have the credentials of an earlier test
    response = boto3.Session().client(SERVICE).batch_get_record(Identifiers=IDENTIFIERS)
    assert StoreConnection(5.0, 1).batch_get_record(Identifiers=IDENTIFIERS) == EMPTY
    assert {name: response[name] for name in EMPTY} == EMPTY
    (path, expected, body), (own_path, own, own_body) = store.requests
    assert (
        (own_path, json.loads(own_body))
        == (path, json.loads(body))
        == ("/BatchGetRecord", {"Identifiers": IDENTIFIERS})
    )
    for name in ("content-type", "host", "x-amz-security-token"):
        assert own[name] == expected[name]
    credential = "AWS4-HMAC-SHA256 Credential=key/{}/eu-west-3/sagemaker/aws4_request, SignedHeaders="
    for headers in (expected, own):
        assert headers["authorization"].startswith(credential.format(headers["x-amz-date"][:8]))
    assert "content-type;host;x-amz-date;x-amz-security-token" in own["authorization"]


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({"x-amzn-errortype": "AccessForbidden:http://x"}, b'{"Message": "no."}', "(AccessForbidden) when calling"),
        ({}, b'{"__type": "ThrottlingException", "message": "slower."}', "BatchGetRecord operation: slower."),
        ({}, b"<html>", "(503) when calling the BatchGetRecord operation: HTTP status 503"),
        ({}, b"[]", "HTTP status 503"),
    ],
)
def test_refused_request(store: Store, headers: dict[str, str], body: bytes, message: str) -> None:
    store.status, store.headers, store.body = 503, headers, body
    with pytest.raises(ClientError) as error:
        StoreConnection(5.0, 1).batch_get_record(Identifiers=IDENTIFIERS)
    assert message in str(error.value)
    with pytest.raises(StoreError, match="the online store refused a request"):
        OnlineRecords(5.0, attempts=1, connections=1).read({"group": ["1"]})
    assert len(store.requests) == 2, "each is sent once"


def test_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    records = OnlineRecords(5.0, attempts=1, connections=1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StoreError, match=r"the online store does not answer: .*refused"):
        records.read({"group": ["1"]})


def test_configuration_is_that_of_boto3(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{store.server_port}")
    assert StoreConnection(5.0, 1).batch_get_record(Identifiers=IDENTIFIERS) == EMPTY
    assert store.requests[0][0] == "http://store.invalid/BatchGetRecord"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NoCredentialsError):
        StoreConnection(5.0, 1)
