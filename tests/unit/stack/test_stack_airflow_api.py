"""What is asked of Airflow, and in which order."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stack.airflow_api import AirflowApi
from stack.errors import UnavailableError

DAY = datetime(2013, 3, 1, tzinfo=UTC)
PAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": True})
UNPAUSE = ("PATCH", "/api/v2/dags/monitor", {"is_paused": False})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """What was asked, in order. A backfill is refused by conf."""
    told: list[tuple[str, str, Any]] = []

    def call(self: AirflowApi, method: str, path: str, **options: Any) -> dict[str, Any]:
        told.append((method, path, options.get("json")))
        if path.endswith("/backfills") and options["json"]["dag_run_conf"]:
            raise UnavailableError("database is locked")
        return {"access_token": "t"}

    monkeypatch.setattr(AirflowApi, "_call", call)
    return told


@pytest.mark.parametrize("refused", [False, True])
def test_no_scheduler_looks_at_a_backfill_that_is_made(asked: list[tuple[str, str, Any]], refused: bool) -> None:
    """Airflow 3.3.2 takes its runs back where SQLite is locked, and a scheduler that is looking at one ends."""
    api = AirflowApi("http://h", "u", "p")
    try:
        api.backfill("monitor", DAY, DAY, 1, {"locked": True} if refused else {})
        assert not refused
    except UnavailableError:
        assert refused
    _, before, made, after = asked
    assert (before, after) == (PAUSE, UNPAUSE)
    assert made[:2] == ("POST", "/api/v2/backfills")
