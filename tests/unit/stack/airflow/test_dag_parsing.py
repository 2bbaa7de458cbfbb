"""Test the wait until Airflow has parsed a DAG."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stack.airflow import dag_parsing
from stack.airflow.dag_parsing import unpause_when_parsed
from stack.errors import RequestError

STACK_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeAirflow:
    def __init__(self, dag: dict[str, Any] | None, errors: list[dict[str, Any]]) -> None:
        self.dag, self.errors, self.is_unpaused = dag, errors, False

    def get_dag(self, dag_id: str) -> dict[str, Any] | None:
        return self.dag

    def list_import_errors(self, since: datetime) -> list[dict[str, Any]]:
        return self.errors

    def unpause_dag(self, dag_id: str) -> None:
        self.is_unpaused = True


def wait(airflow: FakeAirflow) -> None:
    unpause_when_parsed(airflow, ["flights_ingest"], STACK_START, lambda: None)


def test_unpauses_a_paused_dag():
    airflow = FakeAirflow({"last_parsed_time": STACK_START.isoformat(), "is_paused": True}, [])
    wait(airflow)
    assert airflow.is_unpaused


def test_reports_an_import_error_in_one_line():
    airflow = FakeAirflow(None, [{"filename": "flights.py", "stack_trace": "Traceback\nNameError: no x\n"}])
    with pytest.raises(RequestError, match=r"^flights.py cannot be imported: NameError: no x$"):
        wait(airflow)


@pytest.mark.parametrize("stack_trace", ["", "\n", None])
def test_reports_an_import_error_without_a_stack_trace(stack_trace):
    airflow = FakeAirflow(None, [{"filename": "flights.py", "stack_trace": stack_trace}])
    with pytest.raises(RequestError, match=r"^flights.py cannot be imported: Airflow gives no reason$"):
        wait(airflow)


@pytest.mark.parametrize("dag", [None, {"last_parsed_time": "2025-12-31T00:00:00Z", "is_paused": False}])
def test_does_not_accept_a_dag_that_only_an_earlier_stack_parsed(dag, monkeypatch):
    monkeypatch.setattr(dag_parsing, "TIMEOUT_S", 0)
    monkeypatch.setattr(dag_parsing, "_POLL_S", 0)
    with pytest.raises(RequestError, match="has the DAG flights_ingest"):
        wait(FakeAirflow(dag, []))
