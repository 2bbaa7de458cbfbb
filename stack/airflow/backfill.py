"""Complete one run of a DAG for each day, even if an earlier run failed, or was killed with an earlier stack."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from stack.airflow.client import AirflowClient
from stack.airflow.failures import explain_failure
from stack.airflow.runs import Json, RunCache, select_newest_runs
from stack.errors import RequestError

_POLL_S = 1.0
_ACTIVE_STATES = ("queued", "running", "restarting", "deferred")


@dataclass
class Backfill:
    """The runs of one DAG that have to succeed, one for each day.

    Attributes:
        client: the session with Airflow.
        dag_id: the DAG.
        days: the days, in the order in which they should run.
        max_active_runs: maximum number of runs that are active at the same time.
        stack_started_at: when this stack started. A task that began earlier no longer runs, even if Airflow's
            database shows it as running.
        check: called while waiting; raises an error if waiting cannot help, because a service has ended.
        conf: values of the DAG's params, for runs that do not exist yet.
    """

    client: AirflowClient
    dag_id: str
    days: Sequence[date]
    max_active_runs: int
    stack_started_at: datetime
    check: Callable[[], object] = lambda: None
    conf: Mapping[str, Any] = field(default_factory=dict)
    _is_requested: bool = field(default=False, init=False)
    """Whether Airflow has accepted the request for the missing runs."""

    def __post_init__(self) -> None:
        """Create an empty cache of the DAG's runs."""
        self._cache = RunCache(self.client, self.dag_id)

    def complete(self, show_progress: Callable[[int, int, str], None]) -> None:
        """Wait until each day has a successful run. Days that have one are not run again. Idempotent.

        Args:
            show_progress: called with the number of successful days, the number of all days, and the days in progress.

        Raises:
            TaskFailedError: a run failed. The error names the task and has the end of its log.
            UnavailableError: Airflow does not answer. A retry can help.
            RequestError: the DAG's schedule has no run for one of the days. A retry cannot help.
        """
        self._restart_old_runs(self.read_runs())
        while True:
            self.check()
            runs = self.read_runs()
            states = Counter(run["state"] for run in runs.values())
            show_progress(states["success"], len(self.days), self._format_running_days(runs))
            if states["success"] == len(self.days):
                return
            self._raise_first_failure(runs)
            if len(runs) < len(self.days):
                # Airflow refuses while SQLite is locked, or while the backfill of a killed demo runs. The loop retries.
                self._request_missing_runs(runs)
            time.sleep(_POLL_S)

    def read_runs(self) -> dict[str, Json]:
        """Return the newest run of each day, by day (YYYY-MM-DD). A day without a run is left out."""
        keys = {day.isoformat() for day in self.days}
        return {key: run for key, run in select_newest_runs(self._cache.update()).items() if key in keys}

    def _restart_old_runs(self, runs: dict[str, Json]) -> None:
        """Clear the runs that failed before this backfill, and running ones whose tasks ended with an earlier stack.

        All tasks of a run are repeated. Each task finds what it started before, such as a training job, by its name.
        """
        for run in runs.values():
            is_abandoned = run["state"] == "running" and self._is_abandoned(run)
            if is_abandoned:
                self.client.fail_run(self.dag_id, run["dag_run_id"])
            if is_abandoned or run["state"] == "failed":
                self.client.clear_run(self.dag_id, run["dag_run_id"])

    def _is_abandoned(self, run: Json) -> bool:
        """Return whether Airflow still shows a task of the run as active although an earlier stack started the task.

        If there is no such task, the scheduler has noticed that the tasks ended, and restarts them.
        """
        tasks = self.client.list_task_instances(self.dag_id, run["dag_run_id"])
        start_times = [task["start_date"] or task["queued_when"] for task in tasks if task["state"] in _ACTIVE_STATES]
        return any(start and datetime.fromisoformat(start) < self.stack_started_at for start in start_times)

    def _request_missing_runs(self, runs: dict[str, Json]) -> None:
        missing_days = [day for day in self.days if day.isoformat() not in runs]
        if self._is_requested:
            listing = ", ".join(day.isoformat() for day in missing_days[:5])
            raise RequestError(
                f"{self.dag_id} has no run for {listing}: check the DAG's start date, end date and schedule."
            )
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (missing_days[0], missing_days[-1]))
        self._is_requested = self.client.start_backfill(self.dag_id, start, end, self.max_active_runs, self.conf)

    def _raise_first_failure(self, runs: dict[str, Json]) -> None:
        for key in sorted(runs):
            if runs[key]["state"] == "failed":
                raise explain_failure(self.client, runs[key], key)

    def _format_running_days(self, runs: dict[str, Json]) -> str:
        days = sorted(key for key, run in runs.items() if run["state"] == "running")
        return " ".join(days[: self.max_active_runs])
