"""What the end of a training job means for its task."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import stopped_at
from leeway.hooks.sagemaker.failures import KILL_LATE_S, PERMANENT
from leeway.hooks.sagemaker.machines import Machine, had_no_capacity, label_of
from leeway.hooks.sagemaker.wait import WaitEvent


def failure_of(job: Mapping[str, Any], event: WaitEvent, following: Machine | None) -> AirflowException | None:
    """What is to be raised for a job that did not complete; None where the same try goes on with the next one.

    Args:
        job: its description now.
        event: why the wait for it is over.
        following: the machine that the policy names for the next attempt.
    """
    if event["cause"] != "ended":
        return _broken_off(event)
    if had_no_capacity(job):
        return None if following else _no_capacity(job)
    if job["TrainingJobStatus"] == "Failed":
        return _failed(job)
    return _stopped(job, event)


def _broken_off(event: WaitEvent) -> AirflowException:
    name, message = event["job_name"], event["message"]
    if event["cause"] == "budget":
        return AirflowFailException(f"training job {name} was stopped: {message}. Its checkpoints are kept.")
    if event["cause"] == "deadline":
        return AirflowException(f"training job {name} was stopped: {message}.")
    return AirflowException(f"training job {name} cannot be watched: {message}")


def _no_capacity(job: Mapping[str, Any]) -> AirflowException:
    waited_s = job["StoppingCondition"].get("MaxWaitTimeInSeconds", 0)
    return AirflowFailException(
        f"training job {job['TrainingJobName']} got no machine ({label_of(job)}) within {waited_s} s, and the task has "
        "no other: give a longer max_wait_s, more instance_types with on_no_capacity='next_instance_type', or "
        "on_no_capacity='on_demand'. Its checkpoints are kept: a clear goes on from them."
    )


def _failed(job: Mapping[str, Any]) -> AirflowException:
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    text = f"training job {job['TrainingJobName']} failed: {reason}"
    return AirflowFailException(text) if reason.startswith(PERMANENT) else AirflowException(text)


def _stopped(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    name = job["TrainingJobName"]
    if job.get("SecondaryStatus") == "MaxRuntimeExceeded":
        most_s = job["StoppingCondition"].get("MaxRuntimeInSeconds", 0)
        return AirflowFailException(
            f"training job {name} was stopped after max_run_s ({most_s} s), before it was done: give a longer "
            "max_run_s. Its checkpoints are kept: a clear goes on from them."
        )
    if event["attached_at"] and stopped_at(job) < dt.datetime.fromisoformat(event["attached_at"]) + dt.timedelta(
        seconds=KILL_LATE_S
    ):
        return None  # by the clear that began this try
    return AirflowException(f"training job {name} was stopped by somebody; a retry goes on from its checkpoints.")
