"""Turn the end of a training job into the task's error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import get_stop_time
from leeway.hooks.sagemaker.failures import KILL_LATE_S, PERMANENT
from leeway.hooks.sagemaker.machines import Machine, get_machine_label, had_no_capacity
from leeway.hooks.sagemaker.wait import WaitEvent


def make_job_error(job: Mapping[str, Any], event: WaitEvent, following: Machine | None) -> AirflowException | None:
    """Return the error for a job that did not complete; None if the same try starts the next job.

    Args:
        job: SageMaker's description of it.
        event: how the wait for it ended.
        following: machine for the next attempt; None if the policy names no other.
    """
    if event["cause"] != "ended":
        return _make_error_of_wait(event)
    if had_no_capacity(job):
        return None if following else _make_error_of_no_capacity(job)
    if job["TrainingJobStatus"] == "Failed":
        return _make_error_of_failed_job(job)
    return _make_error_of_stopped_job(job, event)


def _make_error_of_wait(event: WaitEvent) -> AirflowException:
    name, message = event["job_name"], event["message"]
    if event["cause"] == "budget":
        return AirflowFailException(f"training job {name} was stopped: {message}. Its checkpoints are kept.")
    if event["cause"] == "deadline":
        return AirflowException(f"training job {name} was stopped: {message}.")
    return AirflowException(f"training job {name} cannot be watched: {message}")


def _make_error_of_no_capacity(job: Mapping[str, Any]) -> AirflowException:
    waited_s = job["StoppingCondition"].get("MaxWaitTimeInSeconds", 0)
    return AirflowFailException(
        f"training job {job['TrainingJobName']} got no machine ({get_machine_label(job)}) within {waited_s} s, and the "
        "task has no other: give a longer max_wait_s, more instance_types with on_no_capacity='next_instance_type', or "
        "on_no_capacity='on_demand'. Its checkpoints are kept: a clear resumes from them."
    )


def _make_error_of_failed_job(job: Mapping[str, Any]) -> AirflowException:
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    text = f"training job {job['TrainingJobName']} failed: {reason}"
    return AirflowFailException(text) if reason.startswith(PERMANENT) else AirflowException(text)


def _make_error_of_stopped_job(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    name = job["TrainingJobName"]
    if job.get("SecondaryStatus") == "MaxRuntimeExceeded":
        most_s = job["StoppingCondition"].get("MaxRuntimeInSeconds", 0)
        return AirflowFailException(
            f"training job {name} was stopped after max_run_s ({most_s} s), before it was done: give a longer "
            "max_run_s. Its checkpoints are kept: a clear resumes from them."
        )
    if event["attached_at"] and get_stop_time(job) < dt.datetime.fromisoformat(event["attached_at"]) + dt.timedelta(
        seconds=KILL_LATE_S
    ):
        return None  # by the clear that began this try
    return AirflowException(f"training job {name} was stopped by somebody; a retry resumes from its checkpoints.")
