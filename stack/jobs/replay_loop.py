"""Replay days in order: score each day with the champion of that day, monitor it, and wait for trainings that start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from stack import display
from stack.airflow.failures import explain_failure
from stack.airflow.runs import Json, RunCache, get_run_key
from stack.jobs.job import Session

SCORE_DAG, MONITOR_DAG, TRAIN_DAG = "flights_score", "flights_monitor", "flights_train"
BATCH_DAYS = 6
"""Number of days that one backfill monitors, before the loop decides on each of them in order."""
SCORED_AHEAD_DAYS = 2 * BATCH_DAYS
"""Number of days that are scored at once, from the present day on. A larger number would waste work: after a promotion,
the later days have to be scored again."""
RUN_PREFIX = "replay__"
"""Start of the ids of the runs that the replay triggers, one for each day."""
DRIFT_RUN_TYPE = "asset_triggered"
"""Airflow's type of a training run that the monitoring started, by its event of the drift asset."""
_END_STATES = ("success", "failed")
_POLL_S = 1.0


def _get_training_moment(day: date) -> str:
    """Return the `as_of` of the training that the monitoring of this day starts: the next day."""
    return str(day + timedelta(days=1))


@dataclass
class ReplayLoop:
    """The loop over the days to replay, in order.

    On most days there is no reason to train. So a backfill, which never starts a training, first monitors a batch of
    days. Then two kinds of days are monitored again, each by a run of its own, which may start a training: the days on
    which the backfill found drift or an overdue training, and the days that the backfill monitored before the last
    promotion. A day of the first kind is not monitored again while the guard is known to hold trainings back.

    Attributes:
        session: the running stack.
        days: the days to replay, oldest first.
    """

    session: Session
    days: Sequence[date]
    _promoted_at: str = field(default="", init=False)
    """When the last training that promoted its model ended. A score run that began before this time is repeated."""
    _guard_allows_from: str = field(default="", init=False)
    """The first moment (YYYY-MM-DD) at which the guard allows a training again; empty if it holds nothing back, or if
    this moment is not known."""
    _request_count: int = field(default=0, init=False)
    """Number of days whose monitoring requested a training, or had a reason to do so while the guard held back."""
    _guard_results: dict[str, Json] = field(default_factory=dict, init=False)
    """The results of the guard, by the id of the training run."""

    def __post_init__(self) -> None:
        """Create an empty cache of runs for each DAG."""
        self._scores, self._monitors, self._trainings = (
            RunCache(self.session.client, dag_id) for dag_id in (SCORE_DAG, MONITOR_DAG, TRAIN_DAG)
        )

    def run(self, progress_bar: display.ProgressBar) -> None:
        """Score and monitor each day, and wait for the trainings that the monitoring starts. Idempotent.

        Raises:
            TaskFailedError: a run failed. The error names the task and has the end of its log.
            UnavailableError: Airflow does not answer. A retry can help.
        """
        self._restart_old_runs()
        for batch_start in range(0, len(self.days), BATCH_DAYS):
            monitor_runs = self._monitor_batch(batch_start)
            for index, day in enumerate(self.days[batch_start : batch_start + BATCH_DAYS], batch_start):
                progress_bar(index, len(self.days), f"{day}, {self._request_count} training requests")
                run = monitor_runs[day.isoformat()]
                if self._is_stale(run):
                    self._decide_on_day(index, day)
                elif self._has_reason_to_train(run):
                    self._monitor_unless_held_back(index, day)
        progress_bar(len(self.days), len(self.days), f"{self._request_count} training requests")

    def _monitor_batch(self, batch_start: int) -> dict[str, Json]:
        """Score some days, monitor them by a backfill that starts no training, and return its runs by day."""
        days = self.days[batch_start : batch_start + BATCH_DAYS]
        for index, day in enumerate(days, batch_start):
            self._score_days(day, self.days[index : index + SCORED_AHEAD_DAYS])
        backfill = self.session.build_backfill(MONITOR_DAG, days, BATCH_DAYS)
        backfill.complete(show_progress=lambda *_: None)
        return backfill.read_runs()

    def _monitor_unless_held_back(self, index: int, day: date) -> None:
        """Monitor once more a day that has a reason to train; if the guard is known to hold back, only count it."""
        if _get_training_moment(day) < self._guard_allows_from:
            self._request_count += 1
        else:
            self._decide_on_day(index, day)

    def _decide_on_day(self, index: int, day: date) -> None:
        """Score and monitor one day by runs of its own, and wait for the training that the monitor run requests."""
        self._score_days(day, self.days[index : index + SCORED_AHEAD_DAYS])
        run = self._run_monitor(day)
        # The task `drift` is skipped if it requests no training.
        if self._read_task_state(MONITOR_DAG, run, "drift") == "success":
            self._request_count += 1
            self._wait_for_training(day)

    def _run_monitor(self, day: date) -> Json:
        """Trigger the day's own monitor run if there is none, wait for its end, and return it."""
        self.session.client.trigger_run(MONITOR_DAG, f"{RUN_PREFIX}{day}", conf={"partition": day.isoformat()})
        while True:
            self.session.check()
            for run in self._monitors.update():
                if run["dag_run_id"] == f"{RUN_PREFIX}{day}" and self._has_succeeded(run):
                    return run
            time.sleep(_POLL_S)

    def _has_reason_to_train(self, run: Json) -> bool:
        """Return whether the monitor run found drift, or that a training is overdue."""
        result = self.session.client.read_result(MONITOR_DAG, run["dag_run_id"], "drift")
        return bool(result.get("outcome") == "drift" or result.get("overdue_reason"))

    def _score_days(self, day: date, days_ahead: Sequence[date]) -> None:
        """Trigger score runs for `day` and the days after it, and wait until the current champion has scored `day`.

        Ended score runs that began before the last promotion are repeated.
        """
        triggered_days: set[date] = set()
        while True:
            self.session.check()
            runs = {run["dag_run_id"]: run for run in self._scores.update()}
            for next_day in days_ahead:
                run = runs.get(f"{RUN_PREFIX}{next_day}")
                if run is None and next_day not in triggered_days:
                    self.session.client.trigger_run(SCORE_DAG, f"{RUN_PREFIX}{next_day}", next_day.isoformat())
                    triggered_days.add(next_day)
                elif run and run["state"] in _END_STATES and self._is_stale(run):
                    self.session.client.clear_run(SCORE_DAG, run["dag_run_id"])
                elif run and next_day == day and self._has_succeeded(run):
                    return
            time.sleep(_POLL_S)

    def _is_stale(self, run: Json) -> bool:
        """Return whether the run began before the last promotion, and so used an older champion."""
        return bool(run["start_date"] and self._promoted_at and run["start_date"] < self._promoted_at)

    def _restart_old_runs(self) -> None:
        """Clear the runs that the replay or its monitoring started and that failed before this stack started."""
        started_at = self.session.stack.started_at
        for run in (*self._scores.update(), *self._monitors.update(), *self._trainings.update()):
            is_of_replay = run["run_type"] == DRIFT_RUN_TYPE or run["dag_run_id"].startswith(RUN_PREFIX)
            has_failed = run["state"] == "failed" and not self._is_held_back(run)
            if is_of_replay and has_failed and datetime.fromisoformat(run["end_date"]) < started_at:
                self.session.client.clear_run(run["dag_id"], run["dag_run_id"])

    def _wait_for_training(self, day: date) -> None:
        """Wait for the end of the training that this day's monitoring started.

        Store the guard's `until`, and the time of the end if the training promoted its model.
        """
        while not ((run := self._find_training(day)) and (self._is_held_back(run) or self._has_succeeded(run))):
            self.session.check()
            time.sleep(_POLL_S)
        self._guard_allows_from = str(self._read_guard_result(run).get("until") or "")
        if self._read_task_state(TRAIN_DAG, run, "promote") == "success":
            self._promoted_at = run["end_date"]

    def _find_training(self, day: date) -> Json | None:
        """Return the training run that this day's monitoring started, or None if there is none yet.

        The result of a run's guard has the `as_of`. A run that failed before its guard had a result is returned too.
        """
        for run in self._trainings.update():
            if run["run_type"] == DRIFT_RUN_TYPE:
                result = self._read_guard_result(run)
                if result.get("as_of") == _get_training_moment(day) or (not result and run["state"] == "failed"):
                    return run
        return None

    def _is_held_back(self, run: Json) -> bool:
        """Return whether the run failed because its guard alerts a person. The replay does not wait for that person."""
        return run["state"] == "failed" and self._read_guard_result(run).get("outcome") == "held_back"

    def _read_guard_result(self, run: Json) -> Json:
        if run["dag_id"] != TRAIN_DAG:
            return {}
        run_id = run["dag_run_id"]
        result = self._guard_results.get(run_id) or self.session.client.read_result(TRAIN_DAG, run_id, "guard")
        self._guard_results[run_id] = result
        return result

    def _has_succeeded(self, run: Json) -> bool:
        """Return whether the run has succeeded. Raise TaskFailedError if it failed."""
        if run["state"] == "failed":
            raise explain_failure(self.session.client, run, get_run_key(run))
        return bool(run["state"] == "success")

    def _read_task_state(self, dag_id: str, run: Json, task_id: str) -> str:
        tasks = self.session.client.list_task_instances(dag_id, run["dag_run_id"])
        return next((str(task["state"]) for task in tasks if task["task_id"] == task_id), "")
