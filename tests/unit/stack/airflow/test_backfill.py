"""Test which runs a backfill requests, restarts and waits for, and what a failure reports."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from stack.airflow import backfill
from stack.airflow.backfill import Backfill
from stack.errors import RequestError, TaskFailedError

STACK_START = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = STACK_START - timedelta(minutes=1)
DAYS = [date(2013, 1, 1), date(2013, 1, 2)]


def build_run(key: str, state: str, started: datetime = STACK_START) -> dict[str, Any]:
    return {
        "dag_id": "flights_ingest",
        "dag_run_id": f"run_{key}_{state}",
        "partition_key": key,
        "logical_date": None,
        "state": state,
        "start_date": started.isoformat(),
        "run_after": started.isoformat(),
    }


def build_task(state: str, start: datetime | None = None, queued: datetime | None = None) -> dict[str, Any]:
    return {
        "state": state,
        "start_date": start and start.isoformat(),
        "queued_when": queued and queued.isoformat(),
    }


class FakeAirflow:
    """An Airflow in which each queued or running run has succeeded by the next poll."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        self.runs = list(runs)
        self.calls: list[str] = []
        self.refusals_left = 0
        self.creates_runs = True
        self.tasks: list[dict[str, Any]] = []
        self.last_listed: dict[int, dict[str, Any]] = {}

    def list_runs(self, dag_id: str, changed_since: datetime | None = None) -> list[dict[str, Any]]:
        listed_runs = [dict(run) for run in self.runs if changed_since is None or self.last_listed.get(id(run)) != run]
        self.last_listed |= {id(run): dict(run) for run in self.runs}
        for run in self.runs:
            run["state"] = "success" if run["state"] in ("queued", "running") else run["state"]
        return listed_runs

    def start_backfill(self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Any) -> bool:
        if self.refusals_left:
            self.refusals_left -= 1
            return False
        self.calls.append(f"backfill {start:%m-%d}..{end:%m-%d}")
        if self.creates_runs:
            days = [start + timedelta(days=n) for n in range((end - start).days + 1)]
            self.runs += [build_run(f"{day:%Y-%m-%d}", "queued") for day in days]
        return True

    def fail_run(self, dag_id: str, run_id: str) -> None:
        self.calls.append(f"fail {run_id}")

    def clear_run(self, dag_id: str, run_id: str) -> None:
        self.calls.append(f"clear {run_id}")
        next(run for run in self.runs if run["dag_run_id"] == run_id)["state"] = "queued"

    def list_task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        if self.tasks:
            return self.tasks
        later_task = {"task_id": "other", "state": "upstream_failed", "end_date": None}
        first_task = {"task_id": "ingest", "state": "failed", "end_date": "2026", "try_number": 2}
        return [{"dag_id": dag_id, "dag_run_id": run_id, "map_index": -1, **task} for task in (later_task, first_task)]

    def read_log(self, task: dict[str, Any]) -> list[str]:
        return ["first line", "the step ended: exit code 2"]


def build_backfill(airflow: FakeAirflow, **options: Any) -> Backfill:
    return Backfill(airflow, "flights_ingest", DAYS, 4, STACK_START, **options)


def complete(airflow: FakeAirflow) -> None:
    build_backfill(airflow).complete(lambda *_: None)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(backfill, "_POLL_S", 0)


def test_requests_missing_runs_once():
    airflow = FakeAirflow()
    complete(airflow)
    assert airflow.calls == ["backfill 01-01..01-02"]


def test_does_not_repeat_successful_runs():
    airflow = FakeAirflow(*(build_run(day.isoformat(), "success") for day in DAYS))
    complete(airflow)
    assert airflow.calls == []


def test_requests_only_the_missing_days():
    airflow = FakeAirflow(build_run("2013-01-01", "success"))
    complete(airflow)
    assert airflow.calls == ["backfill 01-02..01-02"]


def test_clears_a_run_that_failed_in_an_earlier_demo():
    airflow = FakeAirflow(build_run("2013-01-01", "success"), build_run("2013-01-02", "failed"))
    complete(airflow)
    assert airflow.calls == ["clear run_2013-01-02_failed"]


@pytest.mark.parametrize(("state", "when"), [("running", {"start": EARLIER}), ("queued", {"queued": EARLIER})])
def test_fails_and_clears_a_run_that_an_earlier_stack_left_active(state, when):
    interrupted_run = build_run("2013-01-02", "running", EARLIER)
    airflow = FakeAirflow(build_run("2013-01-01", "success"), interrupted_run)
    airflow.tasks = [build_task("success", EARLIER, EARLIER), build_task(state, **when)]
    complete(airflow)
    assert airflow.calls == ["fail run_2013-01-02_running", "clear run_2013-01-02_running"]


@pytest.mark.parametrize(("state", "start", "queued"), [("running", STACK_START, EARLIER), ("scheduled", None, None)])
def test_waits_for_a_run_that_the_scheduler_has_restarted(state, start, queued):
    airflow = FakeAirflow(build_run("2013-01-01", "success"), build_run("2013-01-02", "running", EARLIER))
    airflow.tasks = [build_task("success", EARLIER, EARLIER), build_task(state, start, queued)]
    complete(airflow)
    assert airflow.calls == []


def test_waits_for_a_run_that_is_running():
    airflow = FakeAirflow(build_run("2013-01-01", "success"), build_run("2013-01-02", "running"))
    complete(airflow)
    assert airflow.calls == []


def test_retries_a_backfill_that_airflow_refuses():
    airflow = FakeAirflow()
    airflow.refusals_left = 3
    complete(airflow)
    assert airflow.calls == ["backfill 01-01..01-02"]


def test_reports_a_day_outside_the_schedule_and_does_not_wait_for_it():
    airflow = FakeAirflow()
    airflow.creates_runs = False
    with pytest.raises(RequestError, match="has no run for 2013-01-01, 2013-01-02"):
        complete(airflow)


def test_failure_names_the_task_and_carries_the_end_of_its_log():
    airflow = FakeAirflow(build_run("2013-01-01", "success"), build_run("2013-01-02", "running"))
    airflow.list_runs("flights_ingest")
    airflow.runs[1]["state"] = "failed"
    requested_backfill = build_backfill(airflow)
    requested_backfill._restart_old_runs = lambda runs: None
    with pytest.raises(TaskFailedError, match=r"Task ingest of flights_ingest failed for 2013-01-02") as raised:
        requested_backfill.complete(lambda *_: None)
    assert raised.value.exit_code == 2
    assert raised.value.details == "first line\nthe step ended: exit code 2"


def test_check_ends_the_wait():
    def check() -> None:
        raise RuntimeError("the stack has ended")

    with pytest.raises(RuntimeError, match="ended"):
        build_backfill(FakeAirflow(), check=check).complete(lambda *_: None)
