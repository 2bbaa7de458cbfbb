"""Provide an S3 server (moto's, over HTTP) that can respond with errors."""

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from drydock.transfer.objects import ObjectStore

ACCOUNT = "123456789012"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class QuietHandler(WSGIRequestHandler):
    """Handle requests without a log."""

    def log_request(self, *args: Any) -> None:
        pass


class S3:
    """A bucket of the server, and a client that is independent of the code under test."""

    def __init__(self, url: str, app: "Application") -> None:
        self.url, self.app, self.bucket = url, app, f"bucket-{uuid.uuid4().hex}"
        session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        config = Config(s3={"addressing_style": "path"}, proxies={})
        self.client = session.client("s3", endpoint_url=url, config=config)
        self.client.create_bucket(Bucket=self.bucket)

    def build_uri(self, key: str) -> str:
        """Return the URI of a key."""
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, body: bytes | str = b"") -> str:
        """Write an object, and return its URI."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
        return self.build_uri(key)

    def put_manifest(self, key: str, *entries: Any) -> str:
        """Write a manifest, and return its URI."""
        return self.put(key, json.dumps(entries))

    def get(self, key: str) -> bytes:
        """Read an object."""
        return bytes(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def list_keys(self, prefix: str = "") -> list[str]:
        """List the keys that begin with a prefix."""
        response = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in response.get("Contents", [])]


class Application:
    """Run moto, respond to the next `failures_left` requests with 503, and record the writes."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.failures_left, self.failure_count = 0, 0
        self.writes: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            if self.failures_left:
                self.failures_left, self.failure_count = self.failures_left - 1, self.failure_count + 1
                start_response("503 Slow Down", [("Content-Type", "application/xml")])
                return [SLOW_DOWN]
            if environ["REQUEST_METHOD"] in ("PUT", "DELETE"):
                self.writes.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO'].split('/', 2)[-1]}")
        return self.moto(environ, start_response)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Application]]:
    """Start the server, and return its address and application."""
    app = Application()
    http_server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=http_server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http_server.server_port}", app
    http_server.shutdown()
    thread.join()
    http_server.server_close()


@pytest.fixture
def s3(server: tuple[str, Application]) -> Iterator[S3]:
    """Return an S3 with a new bucket."""
    url, app = server
    s3 = S3(url, app)
    app.writes.clear()
    app.failure_count = 0
    yield s3
    app.failures_left = 0


@pytest.fixture
def objects(s3: S3) -> ObjectStore:
    """Return the object store under test, on that S3."""
    return ObjectStore(s3.url, ACCOUNT, "us-east-1", 60.0)
