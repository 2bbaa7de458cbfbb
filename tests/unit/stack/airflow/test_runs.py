"""Test the key of a run, and the newest run of each key."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stack.airflow.runs import select_newest_runs

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def build_run(key: str, state: str, started: datetime = STARTED) -> dict[str, Any]:
    moment = started.isoformat()
    return {"partition_key": key, "logical_date": None, "state": state, "start_date": moment, "run_after": moment}


def test_newest_run_of_a_key_counts():
    old_run = build_run("2013-01-01", "failed", STARTED)
    new_run = build_run("2013-01-01", "success", STARTED + timedelta(seconds=1))
    assert select_newest_runs([new_run, old_run])["2013-01-01"] == new_run


def test_key_of_a_run_without_partition_is_its_logical_date():
    run = {**build_run("", "success"), "partition_key": None, "logical_date": "2013-03-01T00:00:00Z"}
    assert list(select_newest_runs([run])) == ["2013-03-01"]


def test_key_of_a_run_of_a_month_is_its_first_day():
    assert list(select_newest_runs([build_run("2013-03", "success")])) == ["2013-03-01"]
