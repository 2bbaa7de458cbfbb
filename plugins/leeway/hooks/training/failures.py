"""Turn the end of a training job into the task's error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.description import get_stop_time
from leeway.hooks.sagemaker.failures import OLD_TRY_STOP_S, PERMANENT_PREFIXES
from leeway.hooks.sagemaker.machines import Machine, get_machine_label, had_no_capacity
from leeway.hooks.sagemaker.wait import WaitEvent


def make_training_error(
    job: Mapping[str, Any], event: WaitEvent, next_machine: Machine | None
) -> AirflowException | None:
    """Return the error for a training job that did not complete; None if the same try starts the next job.

    Args:
        job: SageMaker's description of the job.
        event: how the wait for the job ended.
        next_machine: machine for the next attempt; None if there is no other.
    """
    if event["cause"] != "ended":
        return _make_error_of_wait(event)
    if had_no_capacity(job):
        return None if next_machine else _make_error_of_no_capacity(job)
    if job["TrainingJobStatus"] == "Failed":
        return _make_error_of_failed_job(job)
    return _make_error_of_stopped_job(job, event)


def _make_error_of_wait(event: WaitEvent) -> AirflowException:
    name, message = event["job_name"], event["message"]
    if event["cause"] == "budget":
        return AirflowFailException(f"training job {name} was stopped: {message}. Its checkpoints are kept.")
    if event["cause"] == "deadline":
        return AirflowException(f"training job {name} was stopped: {message}.")
    return AirflowException(f"the state of training job {name} is not known: {message}")


def _make_error_of_no_capacity(job: Mapping[str, Any]) -> AirflowException:
    max_wait_s = job["StoppingCondition"].get("MaxWaitTimeInSeconds")
    machine = f"training job {job['TrainingJobName']} got no machine ({get_machine_label(job)})"
    advice = "Its checkpoints are kept: after a clear, the next job resumes from them."
    if max_wait_s is None:
        return AirflowFailException(
            f"{machine}: SageMaker has no capacity for it, and the task has no further machine to try: run it later, "
            f"or give another instance type. {advice}"
        )
    return AirflowFailException(
        f"{machine} within {max_wait_s} s, and the task has no further machine to try: give a longer max_wait_s, more "
        f"instance_types with on_no_capacity='next_instance_type', or on_no_capacity='on_demand'. {advice}"
    )


def _make_error_of_failed_job(job: Mapping[str, Any]) -> AirflowException:
    reason = " ".join(str(job.get("FailureReason", "no reason is given")).split())
    text = f"training job {job['TrainingJobName']} failed: {reason}"
    return AirflowFailException(text) if reason.startswith(PERMANENT_PREFIXES) else AirflowException(text)


def _make_error_of_stopped_job(job: Mapping[str, Any], event: WaitEvent) -> AirflowException | None:
    name = job["TrainingJobName"]
    if job.get("SecondaryStatus") == "MaxRuntimeExceeded":
        max_run_s = job["StoppingCondition"].get("MaxRuntimeInSeconds", 0)
        return AirflowFailException(
            f"training job {name} was stopped after max_run_s ({max_run_s} s), before it was done: give a longer "
            "max_run_s. Its checkpoints are kept: after a clear, the next job resumes from them."
        )
    if event["attached_at"] and get_stop_time(job) < dt.datetime.fromisoformat(event["attached_at"]) + dt.timedelta(
        seconds=OLD_TRY_STOP_S
    ):
        return None  # a clear of the task stopped the job, and then began this try
    return AirflowException(f"training job {name} was stopped by somebody; a retry resumes from its checkpoints.")
