"""Wait until Airflow has parsed the DAG files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from stack.airflow.client import AirflowClient
from stack.errors import RequestError

TIMEOUT_S = 120.0
"""Longest wait, seconds. Most waits take 5 s."""
_POLL_S = 0.5


def unpause_when_parsed(
    client: AirflowClient, dag_ids: Sequence[str], started_at: datetime, check: Callable[[], object]
) -> None:
    """Wait until Airflow has parsed the DAGs, then unpause those that are paused. Idempotent.

    Args:
        client: the session with Airflow.
        dag_ids: the DAGs to wait for.
        started_at: when this stack started. A DAG that was last parsed before this moment is waited for.
        check: called while waiting; raises an error if waiting cannot help, because a service has ended.

    Raises:
        RequestError: a file of the dags folder cannot be imported, or no file defines one of the DAGs. A retry cannot
            help.
        UnavailableError: Airflow does not answer. A retry can help.
    """
    deadline = time.monotonic() + TIMEOUT_S
    unparsed_ids = list(dag_ids)
    while unparsed_ids:
        check()
        if errors := client.list_import_errors(started_at):
            raise _build_import_error(errors[0])
        if time.monotonic() > deadline:
            raise RequestError(f"No file in the dags folder has the DAG {unparsed_ids[0]} (waited {TIMEOUT_S:.0f} s).")
        unparsed_ids = [dag_id for dag_id in unparsed_ids if not _is_parsed(client.get_dag(dag_id), started_at)]
        time.sleep(_POLL_S if unparsed_ids else 0)
    for dag_id in dag_ids:
        if (client.get_dag(dag_id) or {}).get("is_paused"):
            client.unpause_dag(dag_id)


def _is_parsed(dag: dict[str, Any] | None, started_at: datetime) -> bool:
    return bool(dag and dag["last_parsed_time"]) and datetime.fromisoformat(dag["last_parsed_time"]) >= started_at  # type: ignore[index]


def _build_import_error(error: dict[str, Any]) -> RequestError:
    trace = str(error["stack_trace"] or "").strip()
    reason = trace.splitlines()[-1] if trace else "Airflow gives no reason"
    return RequestError(f"{error['filename']} cannot be imported: {reason}", trace)
