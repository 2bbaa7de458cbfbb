"""Read AWS Batch's description of a service job: its state, its training jobs, and their waits in the queue."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leeway.hooks.sagemaker.description import get_job_status, is_live
from pipelines.costs.job_records import get_end_time

SERVICE_JOB_TYPE = "SAGEMAKER_TRAINING"
"""Type of the queues and service jobs of training jobs."""
FINAL_STATES = ("SUCCEEDED", "FAILED")
"""States of a service job that has ended."""
WAITING_STATES = ("SUBMITTED", "RUNNABLE")
"""States of a service job that waits in the queue: at first, and again after a preemption."""
SERVICE_JOB = "ServiceJob"
"""Key that Leeway adds to a training job's description. Its value has the name (`name`) and the id (`id`) of the
service job, whether the service job has not ended (`is_live`), and since when the training job waited in the queue
(`queued_at`; None: not known)."""


def build_list_request(queue: str, name: str) -> dict[str, Any]:
    """Return the request to ListServiceJobs for the service jobs with a name, in all states.

    Args:
        queue: name or ARN of the queue.
        name: name of the jobs; if it ends with an asterisk, the beginning of their names.
    """
    return {"jobQueue": queue, "filters": [{"name": "JOB_NAME", "values": [name]}]}


def has_ended(service_job: Mapping[str, Any]) -> bool:
    """Return whether a service job has ended."""
    return service_job["status"] in FINAL_STATES


def list_training_job_names(service_job: Mapping[str, Any]) -> list[str]:
    """Return the names of the training jobs of a service job, without duplicates.

    AWS lists only the latest preempted training jobs, so earlier ones are missing.
    """
    preempted_attempts = service_job.get("preemptionSummary", {}).get("recentPreemptedAttempts", [])
    attempts = [*reversed(preempted_attempts), *service_job.get("attempts", []), service_job.get("latestAttempt", {})]
    return list(dict.fromkeys(name for attempt in attempts if (name := _get_training_job_name(attempt))))


def get_latest_training_job_name(service_job: Mapping[str, Any]) -> str:
    """Return the name of the latest training job of a service job; empty if there was none yet."""
    return _get_training_job_name(service_job.get("latestAttempt", {}))


def describe_attempts(
    service_job: Mapping[str, Any], training_jobs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return SageMaker's descriptions of the training jobs of a service job, each with the key `SERVICE_JOB`.

    If the service job waits for its next training job, or ended without any, another description is added at the end.
    It stands for the service job itself: it has the fields of the request, and no ARN.

    Args:
        service_job: response of DescribeServiceJob.
        training_jobs: responses of DescribeTrainingJob for its training jobs.
    """
    jobs = list(_add_queue_times(service_job, sorted(training_jobs, key=lambda job: job["CreationTime"])))
    if jobs and (has_ended(service_job) or is_live(jobs[-1]) or get_job_status(jobs[-1]) == "Completed"):
        return jobs
    return [*jobs, _describe_waiting_job(service_job, jobs)]


def compute_queue_s(job: Mapping[str, Any]) -> float | None:
    """Return how long a training job waited in its queue before SageMaker created it, seconds; None if not known."""
    queued_at: dt.datetime | None = job[SERVICE_JOB]["queued_at"]
    return None if queued_at is None else max(0.0, (job["CreationTime"] - queued_at).total_seconds())


def find_queue_start(service_job: Mapping[str, Any]) -> dt.datetime:
    """Return since when a service job waits: since its submission, or since the end of its last training job."""
    preempted_attempts = service_job.get("preemptionSummary", {}).get("recentPreemptedAttempts", [])
    attempts = [*preempted_attempts, *service_job.get("attempts", [])]
    return _to_moment(max(service_job["createdAt"], *(attempt.get("stoppedAt", 0) for attempt in attempts), 0))


def _add_queue_times(
    service_job: Mapping[str, Any], training_jobs: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    summary = service_job.get("preemptionSummary", {})
    # AWS shows only the latest preempted attempts. The first of these did not wait since the submission.
    has_hidden_attempts = summary.get("preemptedAttemptCount", 0) > len(summary.get("recentPreemptedAttempts", []))
    queued_at = None if has_hidden_attempts else _to_moment(service_job["createdAt"])
    for job in training_jobs:
        yield {**job, SERVICE_JOB: _describe_service_job(service_job, queued_at)}
        queued_at = get_end_time(job)


def _describe_waiting_job(service_job: Mapping[str, Any], training_jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    created_at = _to_moment(service_job["createdAt"])
    queued_at = get_end_time(training_jobs[-1]) if training_jobs else created_at
    is_terminated = service_job.get("isTerminated", False)
    end = {}
    if has_ended(service_job):
        end_time = _to_moment(service_job.get("stoppedAt", service_job["createdAt"]))
        reason = str(service_job.get("statusReason", ""))
        end = {"TrainingEndTime": end_time, "FailureReason": "" if is_terminated else _find_cause(reason)}
        status = "Stopped" if is_terminated else "Failed"
    else:
        status = "Stopping" if is_terminated else "InProgress"
    return {
        **json.loads(service_job["serviceRequestPayload"]),
        "TrainingJobName": service_job["jobName"],
        "TrainingJobStatus": status,
        "SecondaryStatus": status if end else "Queued",
        "CreationTime": queued_at,
        **end,
        SERVICE_JOB: _describe_service_job(service_job, queued_at),
    }


def _find_cause(reason: str) -> str:
    """Return the reason of a training job that SageMaker refused, in the form of a FailureReason."""
    cause = reason.removeprefix("Received status from SageMaker:").strip()
    return f"ClientError: {cause}" if cause.startswith("ValidationException") else cause or "no reason is given"


def _describe_service_job(service_job: Mapping[str, Any], queued_at: dt.datetime | None) -> dict[str, Any]:
    return {
        "name": service_job["jobName"],
        "id": service_job["jobId"],
        "is_live": not has_ended(service_job),
        "queued_at": queued_at,
    }


def _get_training_job_name(attempt: Mapping[str, Any]) -> str:
    return str(attempt.get("serviceResourceId", {}).get("value", "")).rpartition("/")[2]


def _to_moment(timestamp_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(int(timestamp_ms) / 1_000, dt.UTC)
