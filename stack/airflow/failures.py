"""Explain why a run failed, from the log of the task that failed first."""

from __future__ import annotations

import re
from typing import Any

from stack.airflow.client import AirflowClient
from stack.errors import TaskFailedError

LOG_LINES = 25
"""Number of last lines of the task's log that the error shows."""
_EXIT_CODE_PATTERN = re.compile(r"exit(?:ed)?(?: with)?(?: code| status)?[ :=]+(\d+)\b", re.IGNORECASE)
_EXIT_CODE_BY_ERROR = {"AirflowFailException:": 2, "AirflowException:": 75}
"""The exit code for each class of errors that Leeway's operators raise. A retry can help only after exit code 75."""


def explain_failure(client: AirflowClient, run: dict[str, Any], day: str) -> TaskFailedError:
    """Build the error for a failed run: the task that failed first, the end of its log, and the error's exit code.

    Args:
        client: the session with Airflow.
        run: the failed run, as Airflow describes it.
        day: the day of the run (YYYY-MM-DD), for the message.
    """
    dag_id, run_id = run["dag_id"], run["dag_run_id"]
    failed_tasks = [task for task in client.list_task_instances(dag_id, run_id) if task["state"] == "failed"]
    if not failed_tasks:
        return TaskFailedError(f"Run {run_id} of {dag_id} for {day} failed, although none of its tasks did.")
    task = min(failed_tasks, key=lambda task: task["end_date"] or "")
    lines = client.read_log(task)[-LOG_LINES:]
    summary = f"Task {task['task_id']} of {dag_id} failed for {day} (run {run_id}, try {task['try_number']})."
    return TaskFailedError(f"{summary} The end of its log is above.", "\n".join(lines), find_exit_code(lines))


def find_exit_code(lines: list[str]) -> int:
    """Return the last exit code in the log lines, if it is 2 or 75. Return 1, the code of a bug, otherwise.

    A line that begins with the class of an operator's error counts as the exit code of this class.
    """
    for line in reversed(lines):
        if match := _EXIT_CODE_PATTERN.search(line):
            return int(match.group(1)) if match.group(1) in ("2", "75") else 1
        for prefix, code in _EXIT_CODE_BY_ERROR.items():
            if line.startswith(prefix):
                return code
    return 1
