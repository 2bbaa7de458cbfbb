"""Show an operator's own error in the task's log as one line, without the Python frames that led to it.

Leeway's code raises AirflowException, AirflowFailException or a LeewayError on purpose, with a text that says what
to do. Airflow 3.3 logs every exception with all its frames, which hide that text. Any other exception keeps its frames.
"""

from __future__ import annotations

import sys
from typing import Any

import structlog
from airflow.listeners import hookimpl
from airflow.sdk.exceptions import AirflowException

from pipelines.errors import LeewayError


@hookimpl
def on_task_instance_running(previous_state: Any, task_instance: Any) -> None:
    """Add `drop_frames` to the structlog processors of the task's log. Idempotent."""
    processors = structlog.get_config()["processors"]
    # In structlog 26, loggers that exist already share this list, so the list is changed in place.
    if isinstance(processors, list) and drop_frames not in processors:
        processors.insert(0, drop_frames)


def drop_frames(logger: Any, method: str, line: dict[str, Any]) -> dict[str, Any]:
    """In a line about an error that Leeway raised on purpose, show the error's class and text, and not its frames."""
    error = line.get("exc_info")
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, LeewayError) or (isinstance(error, AirflowException) and _is_raised_by_leeway(error)):
        del line["exc_info"]
        line["event"] = f"{type(error).__name__}: {error}"
    return line


def _is_raised_by_leeway(error: BaseException) -> bool:
    """Return whether the innermost frame of the error is in this package."""
    traceback = error.__traceback__
    while traceback and traceback.tb_next:
        traceback = traceback.tb_next
    return traceback is not None and str(traceback.tb_frame.f_globals.get("__name__", "")).startswith("leeway.")
