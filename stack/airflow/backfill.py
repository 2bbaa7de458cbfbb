"""Getting one run of a DAG done for each of a list of keys, whatever state they were left in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from stack.airflow.client import AirflowApi
from stack.airflow.failures import explain
from stack.errors import RequestError

_POLL_S = 1.0
_OVERLAP = timedelta(seconds=10)
"""Of two looks at what has changed: a run's change counts from its statement, and is seen from its commit on."""
_AT_WORK = ("queued", "running", "restarting", "deferred")

Json = dict[str, Any]


def key_of(run: Json) -> str:
    """The day of a run: its partition, of a month the first, or else its logical date."""
    key = str(run["partition_key"] or run["logical_date"] or "")[:10]
    return f"{key}-01" if len(key) == len("2013-01") else key


def latest(runs: Iterable[Json]) -> dict[str, Json]:
    """The newest run of each key."""
    # A run that waits has no start yet, and is newer than all that have one.
    ordered = sorted(runs, key=lambda run: (run["start_date"] is None, run["start_date"] or run["run_after"]))
    return {key_of(run): run for run in ordered}


class Runs:
    """The runs of a DAG as they are, without asking for all of them each time.

    A year's runs are four pages, and Airflow works hard for each: only what has changed is asked for.
    """

    def __init__(self, api: AirflowApi, dag_id: str) -> None:
        self._api, self._dag_id = api, dag_id
        self._known: dict[str, Json] = {}
        self._looked: datetime | None = None

    def look(self) -> list[Json]:
        """All of them, now."""
        began = datetime.now(UTC)
        self._known |= {run["dag_run_id"]: run for run in self._api.runs(self._dag_id, self._looked)}
        self._looked = began - _OVERLAP
        return list(self._known.values())


@dataclass
class Backfill:
    """The runs of one DAG that are wanted.

    Attributes:
        api: the session with Airflow.
        dag_id: the DAG.
        days: the wanted keys, in the order in which they should run.
        max_active_runs: how many at once.
        born: when this stack started. What ran before it runs no more, whatever Airflow's database says.
        conf: the DAG's params, for runs that do not exist yet.
        check: called while waiting; raises when there is no point in waiting.
    """

    api: AirflowApi
    dag_id: str
    days: Sequence[date]
    max_active_runs: int
    born: datetime
    check: Callable[[], None] = lambda: None
    conf: Mapping[str, Any] = field(default_factory=dict)
    _asked: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Remembers what Airflow has shown."""
        self._runs = Runs(self.api, self.dag_id)

    def complete(self, show: Callable[[int, int, str], None]) -> None:
        """Returns when each key has a successful run. Those that have one are not run again. Idempotent.

        Raises:
            TaskFailedError: a run failed; names the task and carries the end of its log.
            UnavailableError: Airflow does not answer.
            RequestError: the DAG's schedule has no such run.
        """
        self._revive(self.found())
        while True:
            self.check()
            found = self.found()
            states = Counter(run["state"] for run in found.values())
            show(states["success"], len(self.days), self._note(found))
            if states["success"] == len(self.days):
                return
            self._raise_failed(found)
            if len(found) < len(self.days):
                # Refused while a backfill of a demo that died is still at work, or SQLite is; then asked for again.
                self._ask(found)
            time.sleep(_POLL_S)

    def found(self) -> dict[str, Json]:
        """The newest run of each wanted key that has one."""
        keys = {day.isoformat() for day in self.days}
        return {key: run for key, run in latest(self._runs.look()).items() if key in keys}

    def _revive(self, found: dict[str, Json]) -> None:
        """Sets going again what failed, or was cut off, in an earlier life.

        The whole run each time: what its tasks had done is found again, the training job by its name.
        """
        for run in found.values():
            if cut_off := run["state"] == "running" and self._cut_off(run):
                self.api.give_up(self.dag_id, run["dag_run_id"])
            if cut_off or run["state"] == "failed":
                self.api.clear(self.dag_id, run["dag_run_id"])

    def _cut_off(self, run: Json) -> bool:
        """Whether a task of the run still counts as at work in an earlier life.

        Where none does, the scheduler has found it out by itself, and has started the tasks anew or is about to.
        """
        tasks = self.api.tasks(self.dag_id, run["dag_run_id"])
        since = [one["start_date"] or one["queued_when"] for one in tasks if one["state"] in _AT_WORK]
        return any(began and datetime.fromisoformat(began) < self.born for began in since)

    def _ask(self, found: dict[str, Json]) -> None:
        missing = [day for day in self.days if day.isoformat() not in found]
        if self._asked:
            named = ", ".join(day.isoformat() for day in missing[:5])
            raise RequestError(f"{self.dag_id} has no run for {named}: outside its dates, or not in its schedule.")
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (missing[0], missing[-1]))
        self._asked = self.api.backfill(self.dag_id, start, end, self.max_active_runs, self.conf)

    def _raise_failed(self, found: dict[str, Json]) -> None:
        for key in sorted(found):
            if found[key]["state"] == "failed":
                raise explain(self.api, found[key], key)

    def _note(self, found: dict[str, Json]) -> str:
        active = sorted(key for key, run in found.items() if run["state"] == "running")
        return " ".join(active[: self.max_active_runs])
