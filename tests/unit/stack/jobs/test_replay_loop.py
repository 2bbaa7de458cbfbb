"""The days in order: scored by the champion that is there, decided on, and drift waited for."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from stack.airflow import backfill
from stack.airflow.backfill import Backfill
from stack.errors import TaskFailedError
from stack.jobs import replay
from stack.jobs.replay import MONITOR, SCORE, TRAIN, Loop

BORN = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = date(2013, 3, 1)
DAYS = [FIRST + timedelta(n) for n in range(replay.LOOK + 2)]


class FakeAirflow:
    """Runs everything at once; what ran, and when, is remembered in `done`."""

    def __init__(self, drift: dict[date, str], fails: str = "") -> None:
        self.alert, self.until = False, ""
        self.drift, self.fails = {str(day): end for day, end in drift.items()}, fails
        self.clock, self.done = BORN, list[str]()
        self.found: dict[str, list[dict[str, Any]]] = {SCORE: [], MONITOR: [], TRAIN: []}
        self.states: dict[str, dict[str, str]] = {}

    def tick(self) -> str:
        self.clock += timedelta(minutes=1)
        return self.clock.isoformat()

    def a_run(self, dag_id: str, run_id: str, key: str, kind: str, **tasks: str) -> None:
        state = "failed" if self.fails == run_id else "success"
        run = {"dag_id": dag_id, "dag_run_id": run_id, "partition_key": key, "logical_date": None, "run_type": kind}
        moments = {"start_date": self.tick(), "run_after": self.clock.isoformat(), "end_date": self.tick()}
        self.states[f"{dag_id} {run_id}"] = tasks
        self.found[dag_id] = [one for one in self.found[dag_id] if one["dag_run_id"] != run_id]
        self.found[dag_id].append({**run, **moments, "state": state})
        self.done.append(run_id if dag_id != MONITOR else run_id.replace("replay__", "monitor "))

    def runs(self, dag_id: str, changed_since: datetime | None = None) -> list[dict[str, Any]]:
        return [dict(run) for run in self.found[dag_id]]

    def trigger(self, dag_id: str, run_id: str, partition: str = "", conf: Any = None) -> None:
        # The monitor's runs are of no partition: Airflow would keep their events from the training.
        assert bool(partition) == (dag_id == SCORE)
        partition = partition or conf["partition"]
        if dag_id == SCORE and f"{SCORE} {run_id}" not in self.states:
            self.a_run(dag_id, run_id, partition, "manual")
        elif dag_id == MONITOR and f"{MONITOR} {run_id}" not in self.states:
            self.a_look(run_id, partition, "manual")
            if told := self.drift.get(partition):
                self.a_run(TRAIN, f"train {partition}", "", "asset_triggered", promote=told)

    def a_look(self, run_id: str, day: str, kind: str) -> None:
        may = kind == "manual" and day in self.drift
        self.a_run(MONITOR, run_id, day, kind, drift="success" if may else "skipped")

    def clear(self, dag_id: str, run_id: str) -> None:
        kind = "asset_triggered" if dag_id == TRAIN else "manual"
        self.a_run(dag_id, run_id, run_id[-10:], kind, **self.states[f"{dag_id} {run_id}"])

    def backfill(self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Any) -> bool:
        assert (dag_id, conf) == (MONITOR, {})  # it may not retrain: of days ahead nothing may start a training
        for n in range((end - start).days + 1):
            day = f"{start + timedelta(n):%Y-%m-%d}"
            self.a_look(f"look {day}", day, "backfill")
        return True

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        about = {"dag_id": dag_id, "dag_run_id": run_id, "map_index": -1, "try_number": 1, "end_date": "2026"}
        states = {"step": "failed"} if run_id == self.fails else self.states[f"{dag_id} {run_id}"]
        return [{**about, "task_id": name, "state": state} for name, state in states.items()]

    def result(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        day = run_id[-10:]
        if dag_id == MONITOR:
            return {"outcome": "drift" if day in self.drift else "none"}
        as_of = date.fromisoformat(day) + timedelta(1)
        held = self.alert or str(as_of) < self.until
        until = {"until": self.until} if held and self.until else {}
        return {"outcome": "held_back" if held else "started", "as_of": str(as_of), **until}

    def log(self, task: dict[str, Any]) -> list[str]:
        return ["the step ended: exit code 2"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backfill, replay):
        monkeypatch.setattr(module, "_POLL_S", 0)


@pytest.fixture
def play() -> Callable[[FakeAirflow], None]:
    def played(api: FakeAirflow) -> None:
        def made(dag_id: str, days: list[date], runs: int) -> Backfill:
            return Backfill(api, dag_id, days, runs, BORN, lambda: None)  # type: ignore[arg-type]

        stack = SimpleNamespace(started_at=api.clock)
        session: Any = SimpleNamespace(api=api, check=lambda: None, backfill=made, stack=stack)
        Loop(session, DAYS).play(lambda *_: None)

    return played


def decided(api: FakeAirflow, day: date, of: str = SCORE) -> list[str]:
    """What was done of the day, in order."""
    return [one.split()[0].removesuffix(f"__{day}") for one in api.done if one.endswith(str(day))]


def test_each_day_is_scored_before_it_is_looked_at(play: Callable[[FakeAirflow], None]) -> None:
    api = FakeAirflow({})
    play(api)
    assert all(decided(api, day) == ["replay", "look"] for day in DAYS)


def test_where_drift_is_seen_the_day_is_decided_on_in_its_turn(play: Callable[[FakeAirflow], None]) -> None:
    api = FakeAirflow({DAYS[1]: "skipped", DAYS[3]: "skipped"})
    play(api)
    assert all(decided(api, day) == ["replay", "look", "monitor", "train"] for day in (DAYS[1], DAYS[3]))
    assert all(decided(api, day) == ["replay", "look"] for day in DAYS if day not in (DAYS[1], DAYS[3]))
    assert [one for one in api.done if "train" in one] == [f"train {DAYS[1]}", f"train {DAYS[3]}"]


def test_drift_is_not_asked_about_again_before_the_moment_that_its_guard_named(
    play: Callable[[FakeAirflow], None],
) -> None:
    api = FakeAirflow({DAYS[1]: "skipped", DAYS[2]: "skipped", DAYS[3]: "skipped"})
    api.until = str(DAYS[4])  # which is when the alarm of DAYS[3] asks for a training
    play(api)
    assert decided(api, DAYS[2]) == ["replay", "look"]
    assert all(decided(api, day) == ["replay", "look", "monitor", "train"] for day in (DAYS[1], DAYS[3]))
    done = list(api.done)
    play(api)
    assert api.done == done


def test_after_a_promotion_the_days_ahead_are_scored_and_decided_on_anew(play: Callable[[FakeAirflow], None]) -> None:
    api = FakeAirflow({DAYS[1]: "success"})
    play(api)
    assert decided(api, DAYS[0]) == ["replay", "look"]
    assert decided(api, DAYS[1]) == ["replay", "look", "monitor", "train"]
    looked, later = DAYS[2 : replay.LOOK], DAYS[replay.LOOK :]
    assert all(decided(api, day) == ["replay", "look", "replay", "monitor"] for day in looked)
    assert all(decided(api, day) == ["replay", "replay", "look"] for day in later)


def test_what_was_done_is_not_done_again(play: Callable[[FakeAirflow], None]) -> None:
    api = FakeAirflow({DAYS[1]: "success"})
    play(api)
    done = list(api.done)
    play(api)
    assert api.done == done


def test_a_guard_that_wants_a_person_does_not_end_it(play: Callable[[FakeAirflow], None]) -> None:
    api = FakeAirflow({DAYS[1]: "upstream_failed"}, fails=f"train {DAYS[1]}")
    api.alert = True
    play(api)
    assert decided(api, DAYS[-1]) == ["replay", "look"]


@pytest.mark.parametrize("run_id", [f"replay__{DAYS[2]}", f"train {DAYS[1]}"])
def test_a_run_that_fails_ends_it_and_is_named(play: Callable[[FakeAirflow], None], run_id: str) -> None:
    api = FakeAirflow({DAYS[1]: "success"}, fails=run_id)
    with pytest.raises(TaskFailedError, match=run_id):
        play(api)
    # Its cause was mended: the next life sets it going again.
    api.fails = ""
    api.tick()
    play(api)
    assert decided(api, DAYS[-1])[-1] == "look"
