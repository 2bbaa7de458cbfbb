"""Waiting until Airflow has read the DAGs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from stack.airflow.client import AirflowApi
from stack.errors import RequestError

PARSE_S = 120.0
"""Longest wait; 5 s is usual."""
_POLL_S = 0.5


def wait_until_parsed(api: AirflowApi, dag_ids: Sequence[str], born: datetime, check: Callable[[], None]) -> None:
    """Returns when the DAGs were read after `born`, without an error, and are not paused.

    Args:
        api: the session with Airflow.
        dag_ids: the DAGs to wait for.
        born: when this stack started; what an earlier one read does not count.
        check: called while waiting; raises when there is no point in waiting.

    Raises:
        RequestError: a file of the dags folder cannot be imported, or none has such a DAG.
        UnavailableError: Airflow does not answer.
    """
    ends = time.monotonic() + PARSE_S
    waiting = list(dag_ids)
    while waiting:
        check()
        if errors := api.import_errors(born):
            raise _import_error(errors[0])
        if time.monotonic() > ends:
            raise RequestError(f"No file in the dags folder has the DAG {waiting[0]} (waited {PARSE_S:.0f} s).")
        waiting = [dag_id for dag_id in waiting if not _parsed(api.dag(dag_id), born)]
        time.sleep(_POLL_S if waiting else 0)
    for dag_id in dag_ids:
        if (api.dag(dag_id) or {}).get("is_paused"):
            api.unpause(dag_id)


def _parsed(dag: dict[str, Any] | None, born: datetime) -> bool:
    return bool(dag and dag["last_parsed_time"]) and datetime.fromisoformat(dag["last_parsed_time"]) >= born  # type: ignore[index]


def _import_error(error: dict[str, Any]) -> RequestError:
    trace = str(error["stack_trace"]).strip()
    return RequestError(f"{error['filename']} cannot be imported: {trace.splitlines()[-1]}", trace)
