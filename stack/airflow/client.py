"""A client for Airflow's REST API, with the calls that the stack's commands `demo` and `replay` make."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from stack.errors import RequestError, UnavailableError

_PAGE_SIZE = 100
"""Number of objects in one answer: Airflow's default of `[api] maximum_page_limit`."""
_TIMEOUT_S = 120.0
"""Longest time for an answer, seconds. A request for a backfill of a year can take this long, because Airflow writes a
row for each day before it answers."""
MAX_WAIT_S = 600.0
"""Seconds for which a request is repeated while Airflow does not answer: its API server may be restarting."""
_PAUSE_S = 1.0
"""Seconds between two requests while Airflow does not answer."""
_TRANSIENT_STATUSES = (500, 502, 503, 504)

Json = dict[str, Any]
_EMPTY: Mapping[str, Any] = MappingProxyType({})


class NotFoundError(RequestError):
    """Airflow has no object with this id."""


class ConflictError(RequestError):
    """The request conflicts with an object that exists. A retry cannot help."""


class BusyError(UnavailableError):
    """Airflow answers 503: it is too busy or, for a backfill, another writer has locked SQLite. A retry can help."""


class AirflowClient:
    """A session with one Airflow, as one user.

    Every method raises UnavailableError if Airflow does not answer or has an error of its own (a retry can help),
    and RequestError if Airflow refuses the request (a retry cannot help). Both quote Airflow's answer, if any.

    Args:
        url: the URL of Airflow.
        user: the name of the user.
        password: the password of the user.
        check: called each time that Airflow does not answer, before the request is repeated; raises an error if
            waiting cannot help. Without `check`, such a request is repeated for some seconds only.
    """

    def __init__(self, url: str, user: str, password: str, check: Callable[[], object] | None = None) -> None:
        self.url, self.check = url, check
        self.session = requests.Session()
        self.session.trust_env = False  # a proxy cannot reach this machine's loopback addresses
        # SQLite has one writer, so Airflow sometimes answers 500 because of a lock. All calls can be repeated safely.
        retry = Retry(
            total=5, connect=2, backoff_factor=0.3, status_forcelist=_TRANSIENT_STATUSES, allowed_methods=None
        )
        retry.raise_on_status = False
        self.session.mount("http://", HTTPAdapter(max_retries=retry))
        token = self._send("POST", "/auth/token", json={"username": user, "password": password})["access_token"]
        self.session.headers["Authorization"] = f"Bearer {token}"

    def get_dag(self, dag_id: str) -> Json | None:
        """Return the DAG, or None while Airflow has not parsed it."""
        try:
            return self.request("GET", f"/dags/{dag_id}")
        except NotFoundError:
            return None

    def unpause_dag(self, dag_id: str) -> None:
        """Let the scheduler run the DAG. Idempotent."""
        self._set_paused(dag_id, is_paused=False)

    def _set_paused(self, dag_id: str, *, is_paused: bool) -> None:
        self.request("PATCH", f"/dags/{dag_id}", json={"is_paused": is_paused})

    def list_import_errors(self, since: datetime) -> list[Json]:
        """Return the import errors of DAG files that Airflow found at or after `since`."""
        errors = self._read_pages("/importErrors", "import_errors")
        return [error for error in errors if datetime.fromisoformat(error["timestamp"]) >= since]

    def list_runs(self, dag_id: str, changed_since: datetime | None = None) -> list[Json]:
        """Return the runs of the DAG: all of them, or those that changed at or after `changed_since`."""
        query = {"updated_at_gte": changed_since.isoformat()} if changed_since else {}
        return list(self._read_pages(f"/dags/{dag_id}/dagRuns", "dag_runs", query))

    def start_backfill(
        self, dag_id: str, start: datetime, end: datetime, max_active_runs: int, conf: Mapping[str, Any]
    ) -> bool:
        """Create the runs that do not exist yet, from `start` to `end`, both included. The DAG is unpaused afterwards.

        Args:
            dag_id: the DAG.
            start: logical date of the first run.
            end: logical date of the last run.
            max_active_runs: largest number of runs that are active at once.
            conf: values of the DAG's params.

        Returns:
            Whether Airflow accepted the backfill. False if another backfill of this DAG is still running, or if
            other writers kept SQLite locked: a retry can help.
        """
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "reprocess_behavior": "none",
            "max_active_runs": max_active_runs,
            "dag_run_conf": dict(conf),
        }
        # If SQLite is locked, Airflow 3.3.2 removes the runs that it has created so far, and a scheduler that is
        # reading one of them crashes. A scheduler reads no run of a paused DAG.
        self._set_paused(dag_id, is_paused=True)
        try:
            self.request("POST", "/backfills", json=body)
        except (ConflictError, BusyError):
            return False
        finally:
            self._set_paused(dag_id, is_paused=False)
        return True

    def trigger_run(
        self, dag_id: str, run_id: str, partition: str | None = None, conf: Mapping[str, Any] = _EMPTY
    ) -> None:
        """Create a run with this id, partition and params, unless a run with this id exists. Idempotent."""
        body = {"dag_run_id": run_id, "partition_key": partition, "logical_date": None, "conf": dict(conf)}
        with suppress(ConflictError):
            self.request("POST", f"/dags/{dag_id}/dagRuns", json=body)

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run, and its tasks that Airflow still shows as running, as failed."""
        self.request("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"})

    def clear_run(self, dag_id: str, run_id: str) -> None:
        """Clear all tasks of a run that has ended, so that they run again."""
        self.request("POST", f"/dags/{dag_id}/dagRuns/{run_id}/clear", json={"dry_run": False, "only_failed": False})

    def list_task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """Return the task instances of a run."""
        return list(self._read_pages(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances"))

    def read_result(self, dag_id: str, run_id: str, task_id: str) -> Json:
        """Return the XCom value that a task of a run returned; an empty dict if it returned no dict."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        try:
            value = self.request("GET", path, params={"deserialize": "true"})["value"]
        except NotFoundError:
            return {}
        return value if isinstance(value, dict) else {}

    def read_log(self, task: Json) -> list[str]:
        """Return the log lines of a task instance's last try."""
        path = f"/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        query = {"full_content": "true", "map_index": task["map_index"]}
        response = self.request("GET", f"{path}/logs/{task['try_number']}", params=query)
        return [line for entry in response["content"] for line in _format_log_entry(entry)]

    def request(self, method: str, path: str, **options: Any) -> Json:
        """Send a request to a path below /api/v2, with `options` for `requests`, and return the JSON of the answer."""
        return self._send(method, f"/api/v2{path}", **options)

    def _read_pages(self, path: str, key: str, query: Mapping[str, str] = _EMPTY) -> Iterator[Json]:
        offset = 0
        while True:
            page = self.request("GET", path, params={**query, "limit": _PAGE_SIZE, "offset": offset})
            yield from page[key]
            offset += _PAGE_SIZE
            if offset >= page["total_entries"]:
                return

    def _send(self, method: str, path: str, **options: Any) -> Json:
        response = self._wait_for_response(method, path, **options)
        if response.ok:
            body: Json = response.json()
            return body
        error_type = _choose_error(response)
        raise error_type(f"Airflow answered HTTP {response.status_code} to {method} {path}: {response.text[:300]}")

    def _wait_for_response(self, method: str, path: str, **options: Any) -> requests.Response:
        deadline = time.monotonic() + MAX_WAIT_S
        while True:
            try:
                return self.session.request(method, f"{self.url}{path}", timeout=_TIMEOUT_S, **options)
            except requests.RequestException as error:
                if self.check is None or time.monotonic() > deadline:
                    name = type(error).__name__
                    raise UnavailableError(f"Airflow at {self.url} does not answer ({name}).") from None
            self.check()
            time.sleep(_PAUSE_S)


def _format_log_entry(entry: str | Json) -> list[str]:
    """Return the lines of a log entry: its text, then the errors in it."""
    if isinstance(entry, str):
        return entry.splitlines()
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or []]
    lines = "\n".join([str(entry.get("event", "")), *errors]).splitlines()
    return [line for line in lines if not line.startswith("::")]  # `::group::` begins a part that the UI can fold


def _choose_error(response: requests.Response) -> type[RequestError | UnavailableError]:
    if response.status_code == requests.codes.not_found:
        return NotFoundError
    if response.status_code == requests.codes.conflict:
        return ConflictError
    if response.status_code == requests.codes.service_unavailable:
        return BusyError
    return UnavailableError if response.status_code >= requests.codes.server_error else RequestError
