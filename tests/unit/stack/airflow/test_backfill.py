"""Which runs are asked for, set going again, waited for, and what a failure says."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from stack.airflow import backfill
from stack.airflow.backfill import Backfill, latest
from stack.errors import RequestError, TaskFailedError

BORN = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = BORN - timedelta(minutes=1)
DAYS = [date(2013, 1, 1), date(2013, 1, 2)]


def a_run(key: str, state: str, started: datetime = BORN) -> dict[str, Any]:
    return {
        "dag_id": "flights_ingest",
        "dag_run_id": f"run_{key}_{state}",
        "partition_key": key,
        "logical_date": None,
        "state": state,
        "start_date": started.isoformat(),
        "run_after": started.isoformat(),
    }


def a_task(state: str, start: datetime | None = None, queued: datetime | None = None) -> dict[str, Any]:
    return {
        "state": state,
        "start_date": start and start.isoformat(),
        "queued_when": queued and queued.isoformat(),
    }


class FakeAirflow:
    """Runs every run that is not held in one poll."""

    def __init__(self, *runs: dict[str, Any]) -> None:
        self.found = list(runs)
        self.done: list[str] = []
        self.refuse = 0
        self.makes = True
        self.at_work: list[dict[str, Any]] = []
        self.shown: dict[int, dict[str, Any]] = {}

    def runs(self, dag_id: str, changed_since: datetime | None = None) -> list[dict[str, Any]]:
        shown = [dict(run) for run in self.found if changed_since is None or self.shown.get(id(run)) != run]
        self.shown |= {id(run): dict(run) for run in self.found}
        for run in self.found:
            run["state"] = "success" if run["state"] in ("queued", "running") else run["state"]
        return shown

    def backfill(self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Any) -> bool:
        if self.refuse:
            self.refuse -= 1
            return False
        self.done.append(f"backfill {start:%m-%d}..{end:%m-%d}")
        if self.makes:
            days = [start + timedelta(days=n) for n in range((end - start).days + 1)]
            self.found += [a_run(f"{day:%Y-%m-%d}", "queued") for day in days]
        return True

    def give_up(self, dag_id: str, run_id: str) -> None:
        self.done.append(f"give up {run_id}")

    def clear(self, dag_id: str, run_id: str) -> None:
        self.done.append(f"clear {run_id}")
        next(run for run in self.found if run["dag_run_id"] == run_id)["state"] = "queued"

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        if self.at_work:
            return self.at_work
        later = {"task_id": "other", "state": "upstream_failed", "end_date": None}
        first = {"task_id": "ingest", "state": "failed", "end_date": "2026", "try_number": 2}
        return [{"dag_id": dag_id, "dag_run_id": run_id, "map_index": -1, **one} for one in (later, first)]

    def log(self, task: dict[str, Any]) -> list[str]:
        return ["first line", "the step ended: exit code 2"]


def complete(api: FakeAirflow) -> None:
    Backfill(api, "flights_ingest", DAYS, 4, BORN).complete(lambda *_: None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(backfill, "_POLL_S", 0)


def test_missing_runs_are_asked_for_once():
    api = FakeAirflow()
    complete(api)
    assert api.done == ["backfill 01-01..01-02"]


def test_successful_runs_are_not_run_again():
    api = FakeAirflow(*(a_run(day.isoformat(), "success") for day in DAYS))
    complete(api)
    assert api.done == []


def test_only_the_missing_days_are_asked_for():
    api = FakeAirflow(a_run("2013-01-01", "success"))
    complete(api)
    assert api.done == ["backfill 01-02..01-02"]


def test_failed_run_of_an_earlier_demo_is_cleared():
    api = FakeAirflow(a_run("2013-01-01", "success"), a_run("2013-01-02", "failed"))
    complete(api)
    assert api.done == ["clear run_2013-01-02_failed"]


@pytest.mark.parametrize(("state", "when"), [("running", {"start": EARLIER}), ("queued", {"queued": EARLIER})])
def test_run_cut_off_in_an_earlier_life_is_given_up_and_cleared(state, when):
    cut_off = a_run("2013-01-02", "running", EARLIER)
    api = FakeAirflow(a_run("2013-01-01", "success"), cut_off)
    api.at_work = [a_task("success", EARLIER, EARLIER), a_task(state, **when)]
    complete(api)
    assert api.done == ["give up run_2013-01-02_running", "clear run_2013-01-02_running"]


@pytest.mark.parametrize(("state", "start", "queued"), [("running", BORN, EARLIER), ("scheduled", None, None)])
def test_run_that_the_scheduler_took_up_again_is_waited_for(state, start, queued):
    api = FakeAirflow(a_run("2013-01-01", "success"), a_run("2013-01-02", "running", EARLIER))
    api.at_work = [a_task("success", EARLIER, EARLIER), a_task(state, start, queued)]
    complete(api)
    assert api.done == []


def test_run_that_is_really_running_is_waited_for():
    api = FakeAirflow(a_run("2013-01-01", "success"), a_run("2013-01-02", "running"))
    complete(api)
    assert api.done == []


def test_busy_backfill_is_waited_for():
    api = FakeAirflow()
    api.refuse = 3
    complete(api)
    assert api.done == ["backfill 01-01..01-02"]


def test_day_outside_the_schedule_is_an_error_and_no_endless_wait():
    api = FakeAirflow()
    api.makes = False
    with pytest.raises(RequestError, match="has no run for 2013-01-01, 2013-01-02"):
        complete(api)


def test_new_failure_names_task_and_carries_its_log():
    api = FakeAirflow(a_run("2013-01-01", "success"), a_run("2013-01-02", "running"))
    api.runs("flights_ingest")
    api.found[1]["state"] = "failed"
    wanted = Backfill(api, "flights_ingest", DAYS, 4, BORN)  # type: ignore[arg-type]
    wanted._revive = lambda found: None  # type: ignore[method-assign]
    with pytest.raises(TaskFailedError, match=r"Task ingest of flights_ingest failed for 2013-01-02") as raised:
        wanted.complete(lambda *_: None)
    assert raised.value.exit_code == 2
    assert raised.value.details == "first line\nthe step ended: exit code 2"


def test_check_ends_the_wait():
    def stopped() -> None:
        raise RuntimeError("the stack is gone")

    with pytest.raises(RuntimeError, match="gone"):
        Backfill(FakeAirflow(), "flights_ingest", DAYS, 4, BORN, stopped).complete(  # type: ignore[arg-type]
            lambda *_: None
        )


def test_newest_run_of_a_key_counts():
    old, new = (
        a_run("2013-01-01", "failed", BORN),
        a_run("2013-01-01", "success", BORN + timedelta(seconds=1)),
    )
    assert latest([new, old])["2013-01-01"] == new


def test_run_without_partition_is_known_by_its_logical_date():
    run = {**a_run("", "success"), "partition_key": None, "logical_date": "2013-03-01T00:00:00Z"}
    assert list(latest([run])) == ["2013-03-01"]


def test_run_of_a_month_is_known_by_its_first():
    assert list(latest([a_run("2013-03", "success")])) == ["2013-03-01"]
