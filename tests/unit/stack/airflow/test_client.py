"""What is asked of Airflow, and in which order."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from stack.airflow.client import AirflowApi
from stack.errors import UnavailableError

DAY = datetime(2013, 3, 1, tzinfo=UTC)
PAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": True})
UNPAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": False})


class Answer:
    """Airflow's, to a request."""

    text = "Database is locked."

    def __init__(self, status: int) -> None:
        self.status_code, self.ok = status, status == 200

    def json(self) -> dict[str, Any]:
        return {"access_token": "t"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """What was asked, in order. A backfill is answered with the status that its conf says."""
    told: list[tuple[str, str, Any]] = []

    def request(self: requests.Session, method: str, url: str, **options: Any) -> Answer:
        body = options.get("json") or {}
        told.append((method, url.removeprefix("http://h"), body))
        return Answer(body.get("dag_run_conf", {}).get("status", 200))

    monkeypatch.setattr(requests.Session, "request", request)
    return told


@pytest.mark.parametrize(("status", "taken_on"), [(200, True), (409, False), (503, False), (500, None)])
def test_no_scheduler_looks_at_a_backfill_that_is_made(
    asked: list[tuple[str, str, Any]], status: int, taken_on: bool | None
) -> None:
    """Airflow 3.3.2 takes its runs back where SQLite is locked (503), and a scheduler that is looking at one ends."""
    api = AirflowApi("http://h", "u", "p")
    with contextlib.nullcontext() if taken_on is not None else pytest.raises(UnavailableError, match="HTTP 500"):
        assert api.backfill("monitor", DAY, DAY, 1, {"status": status}) is taken_on
    _, before, made, after = asked
    assert (before, after) == (PAUSE, UNPAUSE)
    assert made[:2] == ("POST", "/api/v2/backfills")
