"""Test the order in which the replay scores and monitors days, and its waits for trainings after drift."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from stack.airflow import backfill
from stack.airflow.backfill import Backfill
from stack.errors import TaskFailedError
from stack.jobs import replay_loop
from stack.jobs.replay_loop import BATCH_DAYS, MONITOR_DAG, SCORE_DAG, TRAIN_DAG, ReplayLoop

STACK_START = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = date(2013, 3, 1)
DAYS = [FIRST + timedelta(n) for n in range(BATCH_DAYS + 2)]


class FakeAirflow:
    """An Airflow that runs each DAG run at once, and lists the runs in `executed`."""

    def __init__(self, drift: dict[date, str], failing_run: str = "") -> None:
        self.needs_person, self.guard_opens_at = False, ""
        self.result_of_drift = {"outcome": "drift"}
        self.drift, self.failing_run = {str(day): state for day, state in drift.items()}, failing_run
        self.clock, self.executed = STACK_START, list[str]()
        self.runs: dict[str, list[dict[str, Any]]] = {SCORE_DAG: [], MONITOR_DAG: [], TRAIN_DAG: []}
        self.states: dict[str, dict[str, str]] = {}

    def advance_clock(self) -> str:
        self.clock += timedelta(minutes=1)
        return self.clock.isoformat()

    def add_run(self, dag_id: str, run_id: str, key: str, kind: str, **tasks: str) -> None:
        state = "failed" if self.failing_run == run_id else "success"
        run = {"dag_id": dag_id, "dag_run_id": run_id, "partition_key": key, "logical_date": None, "run_type": kind}
        times = {
            "start_date": self.advance_clock(),
            "run_after": self.clock.isoformat(),
            "end_date": self.advance_clock(),
        }
        self.states[f"{dag_id} {run_id}"] = tasks
        self.runs[dag_id] = [old for old in self.runs[dag_id] if old["dag_run_id"] != run_id]
        self.runs[dag_id].append({**run, **times, "state": state})
        self.executed.append(run_id if dag_id != MONITOR_DAG else run_id.replace("replay__", "monitor "))

    def list_runs(self, dag_id: str, changed_since: datetime | None = None) -> list[dict[str, Any]]:
        return [dict(run) for run in self.runs[dag_id]]

    def trigger_run(self, dag_id: str, run_id: str, partition: str = "", conf: Any = None) -> None:
        # Runs of the monitor have no partition. With one, Airflow would not send their events to the training.
        assert bool(partition) == (dag_id == SCORE_DAG)
        partition = partition or conf["partition"]
        if dag_id == SCORE_DAG and f"{SCORE_DAG} {run_id}" not in self.states:
            self.add_run(dag_id, run_id, partition, "manual")
        elif dag_id == MONITOR_DAG and f"{MONITOR_DAG} {run_id}" not in self.states:
            self.add_monitor_run(run_id, partition, "manual")
            if promote_state := self.drift.get(partition):
                self.add_run(TRAIN_DAG, f"train {partition}", "", "asset_triggered", promote=promote_state)

    def add_monitor_run(self, run_id: str, day: str, kind: str) -> None:
        starts_training = kind == "manual" and day in self.drift
        self.add_run(MONITOR_DAG, run_id, day, kind, drift="success" if starts_training else "skipped")

    def clear_run(self, dag_id: str, run_id: str) -> None:
        kind = "asset_triggered" if dag_id == TRAIN_DAG else "manual"
        self.add_run(dag_id, run_id, run_id[-10:], kind, **self.states[f"{dag_id} {run_id}"])

    def start_backfill(self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Any) -> bool:
        assert (dag_id, conf) == (MONITOR_DAG, {})  # a backfill of days ahead may start no training
        for n in range((end - start).days + 1):
            day = f"{start + timedelta(n):%Y-%m-%d}"
            self.add_monitor_run(f"batch {day}", day, "backfill")
        return True

    def list_task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        common = {"dag_id": dag_id, "dag_run_id": run_id, "map_index": -1, "try_number": 1, "end_date": "2026"}
        states = {"step": "failed"} if run_id == self.failing_run else self.states[f"{dag_id} {run_id}"]
        return [{**common, "task_id": name, "state": state} for name, state in states.items()]

    def read_result(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        day = run_id[-10:]
        if dag_id == MONITOR_DAG:
            return self.result_of_drift if day in self.drift else {"outcome": "none"}
        as_of = date.fromisoformat(day) + timedelta(1)
        is_held_back = self.needs_person or str(as_of) < self.guard_opens_at
        until = {"until": self.guard_opens_at} if is_held_back and self.guard_opens_at else {}
        return {"outcome": "held_back" if is_held_back else "started", "as_of": str(as_of), **until}

    def read_log(self, task: dict[str, Any]) -> list[str]:
        return ["the step ended: exit code 2"]


@pytest.fixture(autouse=True)
def _poll_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backfill, replay_loop):
        monkeypatch.setattr(module, "_POLL_S", 0)


@pytest.fixture
def replay() -> Callable[[FakeAirflow], None]:
    """Return the function that runs the replay loop once."""

    def run_loop(airflow: FakeAirflow) -> None:
        def build_backfill(dag_id: str, days: list[date], runs: int) -> Backfill:
            return Backfill(airflow, dag_id, days, runs, STACK_START, lambda: None)

        stack = SimpleNamespace(started_at=airflow.clock)
        session: Any = SimpleNamespace(client=airflow, check=lambda: None, build_backfill=build_backfill, stack=stack)
        ReplayLoop(session, DAYS).run(lambda *_: None)

    return run_loop


def list_runs_of_day(airflow: FakeAirflow, day: date) -> list[str]:
    """Return the kinds of the runs of a day, in order: `replay` is a score run."""
    return [run_id.split()[0].removesuffix(f"__{day}") for run_id in airflow.executed if run_id.endswith(str(day))]


def test_scores_each_day_before_it_is_monitored(replay: Callable[[FakeAirflow], None]) -> None:
    airflow = FakeAirflow({})
    replay(airflow)
    assert all(list_runs_of_day(airflow, day) == ["replay", "batch"] for day in DAYS)


@pytest.mark.parametrize(
    "result", [{"outcome": "drift"}, {"outcome": "none", "overdue_reason": "the last training is old"}]
)
def test_decides_in_order_on_each_day_that_requests_a_training(
    replay: Callable[[FakeAirflow], None], result: dict[str, str]
) -> None:
    airflow = FakeAirflow({DAYS[1]: "skipped", DAYS[3]: "skipped"})
    airflow.result_of_drift = result
    replay(airflow)
    assert all(list_runs_of_day(airflow, day) == ["replay", "batch", "monitor", "train"] for day in (DAYS[1], DAYS[3]))
    assert all(list_runs_of_day(airflow, day) == ["replay", "batch"] for day in DAYS if day not in (DAYS[1], DAYS[3]))
    assert [run_id for run_id in airflow.executed if "train" in run_id] == [f"train {DAYS[1]}", f"train {DAYS[3]}"]


def test_does_not_repeat_an_alarm_before_the_guard_allows_a_training(
    replay: Callable[[FakeAirflow], None],
) -> None:
    airflow = FakeAirflow({DAYS[1]: "skipped", DAYS[2]: "skipped", DAYS[3]: "skipped"})
    airflow.guard_opens_at = str(DAYS[4])  # the moment of the training of DAYS[3]
    replay(airflow)
    assert list_runs_of_day(airflow, DAYS[2]) == ["replay", "batch"]
    assert all(list_runs_of_day(airflow, day) == ["replay", "batch", "monitor", "train"] for day in (DAYS[1], DAYS[3]))
    done = list(airflow.executed)
    replay(airflow)
    assert airflow.executed == done


def test_scores_and_monitors_the_days_ahead_again_after_a_promotion(replay: Callable[[FakeAirflow], None]) -> None:
    airflow = FakeAirflow({DAYS[1]: "success"})
    replay(airflow)
    assert list_runs_of_day(airflow, DAYS[0]) == ["replay", "batch"]
    assert list_runs_of_day(airflow, DAYS[1]) == ["replay", "batch", "monitor", "train"]
    same_batch, next_batch = DAYS[2:BATCH_DAYS], DAYS[BATCH_DAYS:]
    assert all(list_runs_of_day(airflow, day) == ["replay", "batch", "replay", "monitor"] for day in same_batch)
    assert all(list_runs_of_day(airflow, day) == ["replay", "replay", "batch"] for day in next_batch)


def test_repeats_nothing(replay: Callable[[FakeAirflow], None]) -> None:
    airflow = FakeAirflow({DAYS[1]: "success"})
    replay(airflow)
    done = list(airflow.executed)
    replay(airflow)
    assert airflow.executed == done


def test_continues_after_a_guard_that_asks_for_a_person(replay: Callable[[FakeAirflow], None]) -> None:
    airflow = FakeAirflow({DAYS[1]: "upstream_failed"}, failing_run=f"train {DAYS[1]}")
    airflow.needs_person = True
    replay(airflow)
    assert list_runs_of_day(airflow, DAYS[-1]) == ["replay", "batch"]


@pytest.mark.parametrize("run_id", [f"replay__{DAYS[2]}", f"train {DAYS[1]}"])
def test_names_a_failed_run_and_clears_it_in_the_next_replay(
    replay: Callable[[FakeAirflow], None], run_id: str
) -> None:
    airflow = FakeAirflow({DAYS[1]: "success"}, failing_run=run_id)
    with pytest.raises(TaskFailedError, match=run_id):
        replay(airflow)
    # The cause is fixed, and the next replay clears the run.
    airflow.failing_run = ""
    airflow.advance_clock()
    replay(airflow)
    assert list_runs_of_day(airflow, DAYS[-1])[-1] == "batch"
