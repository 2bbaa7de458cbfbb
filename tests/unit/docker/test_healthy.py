"""The health check of the containers."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.tools import compose

STATUS = {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}, "dag_processor": {"status": None}}


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(STATUS).encode() if self.path == "/health" else b"no such page"
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("page", "component", "code", "told"),
    [
        ("/health", [], 0, ""),
        ("/health", ["scheduler"], 0, ""),
        ("/health", ["triggerer"], 1, "triggerer is unhealthy"),
        ("/health", ["dag_processor"], 1, "dag_processor is None"),
        ("/health", ["navigator"], 1, "KeyError"),
        ("/none", [], 1, "404"),
        ("/none", ["scheduler"], 1, "404"),
    ],
)
def test_exit_code_says_whether_it_is_healthy(url, page, component, code, told):
    command = [sys.executable, "-I", str(compose.ROOT / "docker/healthy.py"), url + page, *component]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == code
    assert told in answer.stderr


def test_nobody_there_is_not_healthy(free_port):
    command = [sys.executable, "-I", str(compose.ROOT / "docker/healthy.py"), f"http://127.0.0.1:{free_port()}/"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 1 and "refused" in answer.stderr
