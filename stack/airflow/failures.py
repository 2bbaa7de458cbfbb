"""Explain why a run failed, from the log of the task that failed first."""

from __future__ import annotations

import re
from typing import Any

from stack.airflow.client import AirflowClient
from stack.errors import TaskFailedError

LOG_LINES = 25
_EXIT_CODE = re.compile(r"exit(?:ed)?(?: with)?(?: code| status)?[ :=]+(\d+)\b", re.IGNORECASE)
_CODE_OF_ERROR = {"AirflowFailException:": 2, "AirflowException:": 75}
"""Leeway's operators raise the first where a retry cannot help, and the second where it can."""


def explain_failure(client: AirflowClient, run: dict[str, Any], key: str) -> TaskFailedError:
    """Build the error for a failed run: DAG, key, task, the end of the task's log, and the exit code of its step."""
    dag_id, run_id = run["dag_id"], run["dag_run_id"]
    failed = [task for task in client.list_tasks(dag_id, run_id) if task["state"] == "failed"]
    if not failed:
        return TaskFailedError(f"Run {run_id} of {dag_id} for {key} failed, though none of its tasks did.")
    first = min(failed, key=lambda task: task["end_date"] or "")
    lines = client.read_log(first)[-LOG_LINES:]
    summary = f"Task {first['task_id']} of {dag_id} failed for {key} (run {run_id}, try {first['try_number']})."
    return TaskFailedError(f"{summary} The end of its log is above.", "\n".join(lines), find_exit_code(lines))


def find_exit_code(lines: list[str]) -> int:
    """Return the exit code that the last log line with one names: 2 or 75, and 1 (a bug) for all other cases."""
    for line in reversed(lines):
        if match := _EXIT_CODE.search(line):
            return int(match.group(1)) if match.group(1) in ("2", "75") else 1
        for prefix, code in _CODE_OF_ERROR.items():
            if line.startswith(prefix):
                return code
    return 1
