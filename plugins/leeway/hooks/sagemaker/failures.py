"""Turn the end of a processing or transform job into the task's error.

`leeway.hooks.training.failures` does this for training jobs, `leeway.hooks.tuning.failures` for tuning jobs.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import get_job_name, get_job_status, get_start_time
from leeway.hooks.sagemaker.wait import WaitEvent
from pipelines.costs.job_records import get_end_time, get_kind

PERMANENT_PREFIXES = ("AlgorithmError", "ClientError")
"""Beginnings of the FailureReason of a job that would fail again: its script, its input or its request is wrong."""
OLD_TRY_STOP_S = 60.0
"""Seconds after the start of a new try in which the old try may still stop its job. (After a clear, Airflow gives the
trigger of the old try 30 s to stop the job.)"""
EXIT_MESSAGE = re.compile(r"\[exit (\d+)\] (.*)", re.DOTALL)
"""Form of the ExitMessage that `pipelines.container.processing` writes: the exit code of the step, and its error."""
RETRY_EXIT_CODE = 75
"""Exit code of a step that failed but may succeed in a retry; see `pipelines.errors`."""
KILLED_PATTERN = re.compile(r"exit ?code:? (137|143)\b", re.IGNORECASE)
"""Part of the FailureReason of a job whose process was killed, for example because it used too much memory."""
LONGER_RUN_HINT = "Give a longer max_run_s, or a larger instance_type."


def compute_machine_s(job: Mapping[str, Any]) -> float:
    """Return the seconds in which an ended job had its machine; 0 if it never had one."""
    start = get_start_time(job)
    return float((get_end_time(job) - start).total_seconds()) if start else 0.0


def make_job_error(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    """Return the error for a job that did not complete; None if the current try must start another job in its place.

    Another job is needed if this job was stopped before its max_run_s in one of two ways: the clear that began this try
    stopped it, or it was being stopped already when this try found it.
    """
    name = f"{get_kind(job).lower()} job {get_job_name(job)}"
    if event["cause"] == "overrun":
        return AirflowFailException(f"{name} was stopped: {event['message']}. {LONGER_RUN_HINT}")
    if event["cause"] == "deadline":
        return AirflowException(f"{name} was stopped: {event['message']}.")
    if event["cause"] != "ended":
        return AirflowException(f"the state of {name} is not known: {event['message']}")
    return (
        _make_error_of_failed_job(job, name)
        if get_job_status(job) == "Failed"
        else _make_error_of_stopped_job(job, name, event)
    )


def _make_error_of_failed_job(job: Mapping[str, Any], name: str) -> AirflowException:
    if match := EXIT_MESSAGE.match(str(job.get("ExitMessage", ""))):
        text = f"{name} failed: {match[2]}"
        return AirflowException(text) if int(match[1]) == RETRY_EXIT_CODE else AirflowFailException(text)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    is_permanent = reason.startswith(PERMANENT_PREFIXES) and not KILLED_PATTERN.search(reason)
    return (AirflowFailException if is_permanent else AirflowException)(f"{name} failed: {reason}")


def _make_error_of_stopped_job(job: Mapping[str, Any], name: str, event: WaitEvent) -> AirflowException | None:
    max_run_s = job.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0)
    if max_run_s and compute_machine_s(job) >= max_run_s:
        text = f"{name} was stopped after max_run_s ({max_run_s} s), before it was done."
        return AirflowFailException(f"{text} {LONGER_RUN_HINT}")
    if event.get("was_stopping") or is_stopped_by_clear(job, event["attached_at"]):
        return None
    return AirflowException(f"{name} was stopped by somebody; a retry starts it again.")


def is_stopped_by_clear(job: Mapping[str, Any], attached_at: str | None) -> bool:
    """Return whether the clear that began this try stopped the job.

    For processing, transform and tuning jobs, SageMaker records neither when a stop was requested nor by whom. So the
    time of the job's end decides.

    Args:
        job: SageMaker's description of the job.
        attached_at: when this try found the job, ISO 8601; None if this try started it.
    """
    if attached_at is None:
        return False
    return get_end_time(job) < dt.datetime.fromisoformat(attached_at) + dt.timedelta(seconds=OLD_TRY_STOP_S)
