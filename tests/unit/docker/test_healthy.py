"""Test docker/healthy.py, the health check of the containers."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.tools import compose

STATUS = {"scheduler": {"status": "healthy"}, "triggerer": {"status": "unhealthy"}, "dag_processor": {"status": None}}


class HealthPage(BaseHTTPRequestHandler):
    """Answer /health as Airflow does, and everything else by 404."""

    def do_GET(self) -> None:
        body = json.dumps(STATUS).encode() if self.path == "/health" else b"no such page"
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Start a server with the health page, and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), HealthPage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("page", "component", "code", "message"),
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
def test_exit_code_says_whether_the_service_is_healthy(url, page, component, code, message):
    command = [sys.executable, "-I", str(compose.ROOT / "docker/healthy.py"), url + page, *component]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code
    assert message in result.stderr


def test_closed_port_is_not_healthy(free_port):
    command = [sys.executable, "-I", str(compose.ROOT / "docker/healthy.py"), f"http://127.0.0.1:{free_port()}/"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "refused" in result.stderr
