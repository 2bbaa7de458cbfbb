"""Why a run failed, in the words of the task that failed first."""

from __future__ import annotations

import re
from typing import Any

from stack.airflow.client import AirflowApi
from stack.errors import TaskFailedError

LOG_LINES = 25
_EXIT_CODE = re.compile(r"exit(?:ed)?(?: with)?(?: code| status)?[ :=]+(\d+)\b", re.IGNORECASE)
_BY_ERROR = {"AirflowFailException:": 2, "AirflowException:": 75}
"""What leeway's operators raise for a step: the first where a retry cannot help, the second where it can."""


def explain(api: AirflowApi, run: dict[str, Any], key: str) -> TaskFailedError:
    """The error for a failed run: dag, key, task, the end of its log, and its step's exit code if told."""
    dag_id, run_id = run["dag_id"], run["dag_run_id"]
    failed = [task for task in api.tasks(dag_id, run_id) if task["state"] == "failed"]
    if not failed:
        return TaskFailedError(f"Run {run_id} of {dag_id} for {key} failed, though none of its tasks did.")
    first = min(failed, key=lambda task: task["end_date"] or "")
    lines = api.log(first)[-LOG_LINES:]
    told = f"Task {first['task_id']} of {dag_id} failed for {key} (run {run_id}, try {first['try_number']})."
    return TaskFailedError(f"{told} Its log ends above.", "\n".join(lines), exit_code(lines))


def exit_code(lines: list[str]) -> int:
    """What the step ended with, as the last line of its log that tells it says: 2 or 75; else 1, a bug."""
    for line in reversed(lines):
        if found := _EXIT_CODE.search(line):
            return int(found.group(1)) if found.group(1) in ("2", "75") else 1
        for start, code in _BY_ERROR.items():
            if line.startswith(start):
                return code
    return 1
