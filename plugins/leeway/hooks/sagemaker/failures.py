"""What the end of a processing or transform job means for its task; and what every kind of job shares of that."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import began_at, name_of, status_of
from leeway.hooks.sagemaker.wait import WaitEvent
from pipelines.costs.job_records import ended_at, kind_of

PERMANENT = ("AlgorithmError", "ClientError")
"""How the FailureReason begins of what would fail again: the script, or what it was given."""
KILL_LATE_S = 60.0
"""How long after a try began the clear before it may still stop its job: Airflow gives a trigger's on_kill 30 s."""
TOLD = re.compile(r"\[exit (\d+)\] (.*)", re.DOTALL)
"""ExitMessage of `pipelines.container.processing`."""
TRY_AGAIN = 75
"""Exit code of a step that a retry can help; see `pipelines.errors`."""
KILLED = re.compile(r"exit ?code:? (137|143)\b", re.IGNORECASE)
"""How the FailureReason tells of a job that was killed: for its memory, say."""

LONGER = "Give a longer max_run_s, or a larger instance_type."


def seconds(job: Mapping[str, Any]) -> float:
    """How long an ended job had its machine."""
    began = began_at(job)
    return float((ended_at(job) - began).total_seconds()) if began else 0.0


def failure_of(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    """What is to be raised for a job that did not complete; None where the same try goes on with the next one."""
    name = f"{kind_of(job).lower()} job {name_of(job)}"
    if event["cause"] == "overrun":
        return AirflowFailException(f"{name} was stopped: {event['message']}. {LONGER}")
    if event["cause"] == "deadline":
        return AirflowException(f"{name} was stopped: {event['message']}.")
    if event["cause"] != "ended":
        return AirflowException(f"{name} cannot be watched: {event['message']}")
    return _failed(job, name) if status_of(job) == "Failed" else _stopped(job, name, event)


def _failed(job: Mapping[str, Any], name: str) -> AirflowException:
    if told := TOLD.match(str(job.get("ExitMessage", ""))):
        text = f"{name} failed: {told[2]}"
        return AirflowException(text) if int(told[1]) == TRY_AGAIN else AirflowFailException(text)
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    for_good = reason.startswith(PERMANENT) and not KILLED.search(reason)
    return (AirflowFailException if for_good else AirflowException)(f"{name} failed: {reason}")


def _stopped(job: Mapping[str, Any], name: str, event: WaitEvent) -> AirflowException | None:
    most_s = job.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 0)
    if most_s and seconds(job) >= most_s:
        return AirflowFailException(f"{name} was stopped after max_run_s ({most_s} s), before it was done. {LONGER}")
    if event.get("was_stopping") or _stopped_by_the_clear(job, event["attached_at"]):
        return None
    return AirflowException(f"{name} was stopped by somebody; a retry starts it again.")


def _stopped_by_the_clear(job: Mapping[str, Any], began: str | None) -> bool:
    """Whether the clear did that began this try. These jobs tell when they ended, and not when they were told to."""
    return began is not None and ended_at(job) < dt.datetime.fromisoformat(began) + dt.timedelta(seconds=KILL_LATE_S)
