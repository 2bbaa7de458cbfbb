"""A real S3 (moto's, over HTTP) that can be told to fail."""

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


class Quiet(WSGIRequestHandler):
    def log_request(self, *args: Any) -> None:
        pass


class S3:
    """One bucket of the server, seen from outside the code under test."""

    def __init__(self, url: str, app: "Application") -> None:
        self.url, self.app, self.bucket = url, app, f"bucket-{uuid.uuid4().hex}"
        session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        config = Config(s3={"addressing_style": "path"}, proxies={})
        self.client = session.client("s3", endpoint_url=url, config=config)
        self.client.create_bucket(Bucket=self.bucket)

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, body: bytes | str = b"") -> str:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
        return self.uri(key)

    def manifest(self, key: str, *lines: Any) -> str:
        return self.put(key, json.dumps(lines))

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        answer = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in answer.get("Contents", [])]


class Application:
    """Moto, with the next so many requests answered 503, and a list of what was written."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.failing, self.refused = 0, 0
        self.written: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            if self.failing:
                self.failing, self.refused = self.failing - 1, self.refused + 1
                start_response("503 Slow Down", [("Content-Type", "application/xml")])
                return [SLOW_DOWN]
            if environ["REQUEST_METHOD"] in ("PUT", "DELETE"):
                self.written.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO'].split('/', 2)[-1]}")
        return self.moto(environ, start_response)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Application]]:
    app = Application()
    made = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", app
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def s3(server: tuple[str, Application]) -> Iterator[S3]:
    """An S3 with a new bucket."""
    url, app = server
    one = S3(url, app)
    app.written.clear()
    app.refused = 0
    yield one
    app.failing = 0


@pytest.fixture
def objects(s3: S3) -> ObjectStore:
    """The store under test, on that S3."""
    return ObjectStore(s3.url, ACCOUNT, "us-east-1", 60.0)
