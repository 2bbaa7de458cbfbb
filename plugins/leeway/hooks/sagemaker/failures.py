"""Turn the end of a processing or transform job into the task's error. Training jobs have a module of their own."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import get_job_name, get_job_status, get_start_time
from leeway.hooks.sagemaker.wait import WaitEvent
from pipelines.costs.job_records import get_end_time, get_kind

PERMANENT = ("AlgorithmError", "ClientError")
"""First word of the FailureReason if the job would fail again: the script is wrong, or what it was given."""
KILL_LATE_S = 60.0
"""Time after the beginning of a try in which the clear before it may still stop its job: a trigger has 30 s for it."""
EXIT_MESSAGE = re.compile(r"\[exit (\d+)\] (.*)", re.DOTALL)
"""ExitMessage that `pipelines.container.processing` writes."""
RETRY_CAN_HELP = 75
"""Exit code of a step that a retry can help; see `pipelines.errors`."""
KILLED = re.compile(r"exit ?code:? (137|143)\b", re.IGNORECASE)
"""Text of the FailureReason of a job that was killed, because it used too much memory, for example."""
LONGER = "Give a longer max_run_s, or a larger instance_type."


def get_machine_seconds(job: Mapping[str, Any]) -> float:
    """Return the seconds that an ended job had its machine."""
    started = get_start_time(job)
    return float((get_end_time(job) - started).total_seconds()) if started else 0.0


def make_job_error(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    """Return the error for a job that did not complete; None if the same try starts the next job."""
    name = f"{get_kind(job).lower()} job {get_job_name(job)}"
    if event["cause"] == "overrun":
        return AirflowFailException(f"{name} was stopped: {event['message']}. {LONGER}")
    if event["cause"] == "deadline":
        return AirflowException(f"{name} was stopped: {event['message']}.")
    if event["cause"] != "ended":
        return AirflowException(f"{name} cannot be watched: {event['message']}")
    return (
        _make_error_of_failed_job(job, name)
        if get_job_status(job) == "Failed"
        else _make_error_of_stopped_job(job, name, event)
    )


def _make_error_of_failed_job(job: Mapping[str, Any], name: str) -> AirflowException:
    if message := EXIT_MESSAGE.match(str(job.get("ExitMessage", ""))):
        text = f"{name} failed: {message[2]}"
        return AirflowException(text) if int(message[1]) == RETRY_CAN_HELP else AirflowFailException(text)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    is_permanent = reason.startswith(PERMANENT) and not KILLED.search(reason)
    return (AirflowFailException if is_permanent else AirflowException)(f"{name} failed: {reason}")


def _make_error_of_stopped_job(job: Mapping[str, Any], name: str, event: WaitEvent) -> AirflowException | None:
    most_s = job.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0)
    if most_s and get_machine_seconds(job) >= most_s:
        return AirflowFailException(f"{name} was stopped after max_run_s ({most_s} s), before it was done. {LONGER}")
    if event.get("was_stopping") or _is_stopped_by_clear(job, event["attached_at"]):
        return None
    return AirflowException(f"{name} was stopped by somebody; a retry starts it again.")


def _is_stopped_by_clear(job: Mapping[str, Any], attached_at: str | None) -> bool:
    """Return whether the clear that began this try stopped the job. SageMaker describes its end, not the stop."""
    if attached_at is None:
        return False
    return get_end_time(job) < dt.datetime.fromisoformat(attached_at) + dt.timedelta(seconds=KILL_LATE_S)
