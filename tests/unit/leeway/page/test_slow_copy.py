"""Test that visitors do not wait for an S3 that does not answer: the old documents are sent, and one thread waits."""

import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from leeway.page import documents, documents_copy
from leeway.page.documents_copy import DocumentsCopy

from tests.tools.page_documents import write_document

LAST_MODIFIED = "Fri, 27 Nov 2026 09:00:00 GMT"


class SlowS3(ThreadingHTTPServer):
    """An S3 that answers each request only after a release, with a copy of the documents of `trains`."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), SlowHandler)
        self.content = content
        self.release = threading.Event()
        self.requests: list[str] = []
        self.answers: list[str] = []


class SlowHandler(BaseHTTPRequestHandler):
    """Answer after the release."""

    server: SlowS3

    def do_GET(self) -> None:
        """Send the copy."""
        self.server.requests.append(self.path)
        self.server.release.wait(120)
        self.send_response(200)
        for name, value in (("ETag", '"1"'), ("Last-Modified", LAST_MODIFIED)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)
        self.server.answers.append(self.path)

    def log_message(self, *_: Any) -> None:
        """Write nothing to the test's output."""


@pytest.fixture
def shared_copy(monkeypatch: pytest.MonkeyPatch) -> DocumentsCopy:
    """Return the copy of this process, which was not read before."""
    copy = DocumentsCopy()
    monkeypatch.setattr(documents, "shared_copy", copy)
    return copy


@pytest.fixture
def slow_s3(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: Path,
    fresh_settings: Callable[[], None],
    shared_copy: DocumentsCopy,
) -> Iterator[SlowS3]:
    """Run the S3; the page of this process reads its copy there, and a request may take two minutes."""
    write_document(tmp_path / "copy", "models.json", models=[{"model": "trains"}])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "copy/models.json", "models.json")
    server = SlowS3(file.getvalue())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1",
        "LEEWAY_STATUS_COPY": "s3://leeway/documents.zip",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    fresh_settings()
    monkeypatch.setattr(documents_copy, "CHECK_S", 0.0)
    monkeypatch.setattr(documents_copy, "TIMEOUT_S", 120)
    yield server
    server.release.set()
    shared_copy.wait_for_check(60)
    server.shutdown()
    server.server_close()


def list_models(viewer: TestClient) -> list[str]:
    """Return the names of the models that a visitor gets."""
    return [model["model"] for model in viewer.get("/documents/models").json()["models"]]


def test_old_documents_are_sent_while_one_thread_waits_for_s3(
    viewer: TestClient, slow_s3: SlowS3, shared_copy: DocumentsCopy, until: Callable[..., Any]
) -> None:
    shared_copy._last_check_s = 0.0  # the process has read a copy before
    for _ in range(3):
        assert list_models(viewer) == ["boats", "cars"]
    until(lambda: slow_s3.requests, 60)
    assert list_models(viewer) == ["boats", "cars"]
    assert (len(slow_s3.requests), slow_s3.answers) == (1, []), "S3 has not answered, and got one request"
    slow_s3.release.set()
    until(lambda: list_models(viewer) == ["trains"], 60)
    assert f"{documents.find_last_check_time():%H:%M:%S}" == "09:00:00"


def test_first_visitor_of_a_new_server_gets_the_new_copy(viewer: TestClient, slow_s3: SlowS3) -> None:
    """The control: the first request waits, and so S3 has answered before the visitor gets the documents."""
    threading.Timer(0.2, slow_s3.release.set).start()
    assert list_models(viewer) == ["trains"]
    assert slow_s3.answers


def test_first_visitor_gets_the_old_documents_if_s3_is_too_slow(
    viewer: TestClient, slow_s3: SlowS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_copy, "TIMEOUT_S", 0.01)
    assert list_models(viewer) == ["boats", "cars"]
    assert slow_s3.answers == []
