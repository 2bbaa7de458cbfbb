"""Test the requests that the client sends to Airflow, and their order."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
import requests

from stack.airflow.client import AirflowClient
from stack.errors import UnavailableError

DAY = datetime(2013, 3, 1, tzinfo=UTC)
PAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": True})
UNPAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": False})


class FakeResponse:
    """A response of Airflow."""

    text = "Database is locked."

    def __init__(self, status: int) -> None:
        self.status_code, self.ok = status, status == 200

    def json(self) -> dict[str, Any]:
        return {"access_token": "t"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """The requests in order. A backfill is answered with the status that its conf names."""
    requests_sent: list[tuple[str, str, Any]] = []

    def request(self: requests.Session, method: str, url: str, **options: Any) -> FakeResponse:
        body = options.get("json") or {}
        requests_sent.append((method, url.removeprefix("http://h"), body))
        return FakeResponse(body.get("dag_run_conf", {}).get("status", 200))

    monkeypatch.setattr(requests.Session, "request", request)
    return requests_sent


@pytest.mark.parametrize(("status", "is_accepted"), [(200, True), (409, False), (503, False), (500, None)])
def test_dag_is_paused_while_a_backfill_is_created(
    sent: list[tuple[str, str, Any]], status: int, is_accepted: bool | None
) -> None:
    """Where SQLite is locked (503), Airflow 3.3.2 removes the runs again, and a scheduler that reads one crashes."""
    client = AirflowClient("http://h", "u", "p")
    with contextlib.nullcontext() if is_accepted is not None else pytest.raises(UnavailableError, match="HTTP 500"):
        assert client.start_backfill("monitor", DAY, DAY, 1, {"status": status}) is is_accepted
    _, before, request, after = sent
    assert (before, after) == (PAUSE, UNPAUSE)
    assert request[:2] == ("POST", "/api/v2/backfills")


class TokenServer(BaseHTTPRequestHandler):
    """An API server that gives each user a token."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"access_token": "t"}')

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def servers() -> Iterator[list[HTTPServer]]:
    """A list for servers, which are stopped after the test."""
    started_servers: list[HTTPServer] = []
    yield started_servers
    for server in started_servers:
        server.shutdown()
        server.server_close()


def test_request_waits_for_an_api_server_that_is_restarted(
    servers: list[HTTPServer], free_port: Callable[[], int]
) -> None:
    port = free_port()

    def check() -> None:
        if not servers:
            servers.append(HTTPServer(("127.0.0.1", port), TokenServer))
            Thread(target=servers[0].serve_forever, daemon=True).start()

    client = AirflowClient(f"http://127.0.0.1:{port}", "u", "p", check)
    assert client.session.headers["Authorization"] == "Bearer t"


def test_request_does_not_wait_for_a_stack_that_has_stopped(free_port: Callable[[], int]) -> None:
    def check() -> None:
        raise UnavailableError("mlflow ended by itself")

    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match="mlflow ended by itself"):
        AirflowClient(url, "u", "p", check)
    with pytest.raises(UnavailableError, match="does not answer"):
        AirflowClient(url, "u", "p")
