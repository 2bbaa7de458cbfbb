"""Airflow's REST API, as much of it as the demo needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from stack.errors import RequestError, UnavailableError

_PAGE = 100
_TIMEOUT_S = 120.0
"""Long, since a backfill of a year writes a row for each day before it answers."""
_PASSING = (500, 502, 503, 504)

Json = dict[str, Any]


class AirflowApi:
    """A session with one Airflow, as one user.

    Every method raises UnavailableError where Airflow does not answer or has failed itself, and
    RequestError where it refuses; both carry its own words.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.trust_env = False  # no proxy between us and this machine
        # SQLite has one writer: now and then Airflow answers 500 for a lock. Our calls bear repetition.
        again = Retry(total=5, connect=2, backoff_factor=0.3, status_forcelist=_PASSING, allowed_methods=None)
        again.raise_on_status = False
        self.session.mount("http://", HTTPAdapter(max_retries=again))
        token = self._call("POST", "/auth/token", json={"username": user, "password": password})["access_token"]
        self.session.headers["Authorization"] = f"Bearer {token}"

    def dag(self, dag_id: str) -> Json | None:
        """The DAG, or None while it has not been parsed."""
        try:
            return self._v2("GET", f"/dags/{dag_id}")
        except NotFoundError:
            return None

    def unpause(self, dag_id: str) -> None:
        """Lets the scheduler run the DAG. Idempotent."""
        self._pause(dag_id, False)

    def _pause(self, dag_id: str, paused: bool) -> None:
        self._v2("PATCH", f"/dags/{dag_id}", json={"is_paused": paused})

    def import_errors(self, since: datetime) -> list[Json]:
        """Files that could not be imported, as found at or after `since`."""
        found = self._all("/importErrors", "import_errors")
        return [one for one in found if datetime.fromisoformat(one["timestamp"]) >= since]

    def runs(self, dag_id: str, changed_since: datetime | None = None) -> list[Json]:
        """All runs of the DAG; where it is given, only those that have changed since."""
        changed = {"updated_at_gte": changed_since.isoformat()} if changed_since else {}
        return list(self._all(f"/dags/{dag_id}/dagRuns", "dag_runs", changed))

    def backfill(
        self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Mapping[str, Any]
    ) -> bool:
        """Asks for the runs that do not exist yet, from `start` to `end`, both included, with `conf` for the params.

        The DAG is not paused afterwards.

        Returns:
            whether it was taken on; False where a backfill of this DAG is still at work, or other writers kept SQLite
            locked: ask again.
        """
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "reprocess_behavior": "none",
            "max_active_runs": max_active_runs,
            "dag_run_conf": dict(conf),
        }
        # Where SQLite is locked, Airflow 3.3.2 takes back the runs that it has made already, and a scheduler that is
        # looking at one of them ends. It looks at none of a paused DAG.
        self._pause(dag_id, True)
        try:
            self._v2("POST", "/backfills", json=body)
        except (ConflictError, BusyError):
            return False
        finally:
            self._pause(dag_id, False)
        return True

    def trigger(
        self, dag_id: str, run_id: str, partition: str | None = None, conf: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """There is a run of that id, of that partition, with `conf` for the DAG's params. Idempotent."""
        body = {"dag_run_id": run_id, "partition_key": partition, "logical_date": None, "conf": dict(conf)}
        with suppress(ConflictError):
            self._v2("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def give_up(self, dag_id: str, run_id: str) -> None:
        """Marks a run, and what of it still counts as running, as failed."""
        self._v2("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"})

    def clear(self, dag_id: str, run_id: str) -> None:
        """Lets all tasks of a run that has ended run again."""
        self._v2("POST", f"/dags/{dag_id}/dagRuns/{run_id}/clear", json={"dry_run": False, "only_failed": False})

    def tasks(self, dag_id: str, run_id: str) -> list[Json]:
        """The task instances of a run."""
        return list(self._all(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances"))

    def result(self, dag_id: str, run_id: str, task_id: str) -> Json:
        """What a task of a run returned; empty where it returned nothing."""
        where = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        try:
            found = self._v2("GET", where, params={"deserialize": "true"})["value"]
        except NotFoundError:
            return {}
        return found if isinstance(found, dict) else {}

    def log(self, task: Json) -> list[str]:
        """The lines that the last try of a task has written."""
        where = f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        query = {"full_content": "true", "map_index": task["map_index"]}
        answer = self._v2("GET", f"{where}/logs/{task['try_number']}", params=query)
        return [line for entry in answer["content"] for line in _spoken(entry)]

    def _all(self, path: str, key: str, asked: Mapping[str, str] = MappingProxyType({})) -> Iterator[Json]:
        offset = 0
        while True:
            page = self._v2("GET", path, params={**asked, "limit": _PAGE, "offset": offset})
            yield from page[key]
            offset += _PAGE
            if offset >= page["total_entries"]:
                return

    def _v2(self, method: str, path: str, **options: Any) -> Json:
        return self._call(method, f"/api/v2{path}", **options)

    def _call(self, method: str, path: str, **options: Any) -> Json:
        try:
            answer = self.session.request(method, f"{self.url}{path}", timeout=_TIMEOUT_S, **options)
        except requests.RequestException as error:
            raise UnavailableError(f"Airflow at {self.url} does not answer ({type(error).__name__}).") from None
        if answer.ok:
            found: Json = answer.json()
            return found
        raise _refusal(answer)(f"Airflow refused {method} {path} (HTTP {answer.status_code}): {answer.text[:300]}")


def _spoken(entry: str | Json) -> list[str]:
    """What a person reads in an entry of a log: its text, and the error that it tells of."""
    if isinstance(entry, str):
        return entry.splitlines()
    errors = [f"{one['exc_type']}: {one['exc_value']}" for one in entry.get("error_detail") or []]
    told = "\n".join([str(entry.get("event", "")), *errors]).splitlines()
    return [line for line in told if not line.startswith("::")]  # marks for folding in the UI


class NotFoundError(RequestError):
    """There is no such thing."""


class ConflictError(RequestError):
    """It contradicts what is there."""


class BusyError(UnavailableError):
    """Not just now."""


def _refusal(answer: requests.Response) -> type[RequestError | UnavailableError]:
    if answer.status_code == requests.codes.not_found:
        return NotFoundError
    if answer.status_code == requests.codes.conflict:
        return ConflictError
    if answer.status_code == requests.codes.service_unavailable:
        return BusyError
    return UnavailableError if answer.status_code >= requests.codes.server_error else RequestError
