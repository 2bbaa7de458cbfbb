"""Read the runs of a DAG: their days, and their states, with few requests to Airflow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from stack.airflow.client import AirflowClient

_OVERLAP = timedelta(seconds=10)
"""The periods of two updates overlap by this time, so that no change is missed.

Airflow stores the time of the SQL statement as the time of a change, but the change can be read only after the commit.
"""

Json = dict[str, Any]


def get_run_key(run: Json) -> str:
    """Return the day of a run, YYYY-MM-DD: its partition (for a month, the first day), or else its logical date."""
    key = str(run["partition_key"] or run["logical_date"] or "")[:10]
    return f"{key}-01" if len(key) == len("2013-01") else key


def select_newest_runs(runs: Iterable[Json]) -> dict[str, Json]:
    """Return the newest run of each day, by the day; see `get_run_key`."""
    # A queued run has no start date, and is newer than all runs that have one.
    ordered_runs = sorted(runs, key=lambda run: (run["start_date"] is None, run["start_date"] or run["run_after"]))
    return {get_run_key(run): run for run in ordered_runs}


class RunCache:
    """The runs of one DAG. All of them are read from Airflow once; an update reads only the runs that have changed.

    A request for the runs of a year has an answer of four pages, and each page costs Airflow much work.
    """

    def __init__(self, client: AirflowClient, dag_id: str) -> None:
        self._client, self._dag_id = client, dag_id
        self._runs: dict[str, Json] = {}
        self._updated_at: datetime | None = None
        """All changes before this time have been read; None before the first update."""

    def update(self) -> list[Json]:
        """Read what has changed since the last call, and return all runs as they are now."""
        start_time = datetime.now(UTC)
        changed_runs = self._client.list_runs(self._dag_id, self._updated_at)
        self._runs |= {run["dag_run_id"]: run for run in changed_runs}
        self._updated_at = start_time - _OVERLAP
        return list(self._runs.values())
