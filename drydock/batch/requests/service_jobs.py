"""Service jobs: Describe, List, Update and Terminate. `submission` has SubmitServiceJob."""

from collections.abc import Callable
from typing import Any

from drydock.batch.errors import ClientException, refuse
from drydock.batch.jobs import RUNNING, WAITING_STATUSES, Attempt, ServiceJob
from drydock.batch.lifecycle import terminate
from drydock.batch.queues import BatchQueues
from drydock.batch.requests.rules import build_page
from drydock.batch.requests.submission import check_priority
from drydock.resources import Owner

MAX_JOBS_TO_TERMINATE = 50
"""Largest number of jobs in a TerminateServiceJobs request."""
RECENT_PREEMPTIONS = 10
"""Number of preempted attempts that DescribeServiceJob shows. AWS documents a sliding window, but not its size."""
TIME_FILTERS = ("BEFORE_CREATED_AT", "AFTER_CREATED_AT")
SHARE_FILTERS = ("SHARE_IDENTIFIER", "QUOTA_SHARE_NAME")


def describe_service_job(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer DescribeServiceJob."""
    job = batch.find_job(owner, request["jobId"])
    description = {
        **summarize(job),
        "jobQueue": job.queue_arn,
        "attempts": [_describe_attempt(attempt) for attempt in job.ended_attempts],
        "isTerminated": job.is_terminated,
        "schedulingPriority": job.priority,
        "serviceRequestPayload": job.request["serviceRequestPayload"],
        "retryStrategy": job.request.get("retryStrategy", {"attempts": 1}),
        "timeoutConfig": job.request.get("timeoutConfig"),
        "preemptionConfiguration": job.request.get("preemptionConfiguration"),
        "tags": job.tags,
    }
    if job.preempted_attempts:
        description["preemptionSummary"] = {
            "preemptedAttemptCount": len(job.preempted_attempts),
            "recentPreemptedAttempts": [
                _describe_attempt(item) for item in job.preempted_attempts[-RECENT_PREEMPTIONS:][::-1]
            ],
        }
    return {key: value for key, value in description.items() if value is not None}


def list_service_jobs(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer ListServiceJobs: the newest first. If the request has no filter and no status, list only RUNNING jobs."""
    _check_filters(request.get("filters") or [])
    jobs = [job for job in batch.tables.jobs.list_all(owner) if _is_selected(job, request)]
    if name := request.get("jobQueue"):
        queue = batch.find_queue(owner, name)
        jobs = [job for job in jobs if job.queue_arn == queue.arn]
    newest_first = sorted(jobs, key=lambda job: (-job.created_ms, -job.number))
    page, token = build_page(newest_first, request)
    return {"jobSummaryList": [summarize(job) for job in page], **token}


def update_service_job(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer UpdateServiceJob: change the priority of a job that has not ended."""
    job = batch.find_job(owner, request["jobId"])
    check_priority(request["schedulingPriority"])
    if job.is_final:
        refuse(f"Service job {job.id} is {job.status}: its priority cannot be changed.")
    job.priority = request["schedulingPriority"]
    batch.save_job(owner, job)
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def terminate_service_job(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer TerminateServiceJob. A job that has ended is not changed."""
    terminate(batch, owner, batch.find_job(owner, request["jobId"]), request["reason"])
    return {}


def terminate_service_jobs(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer TerminateServiceJobs. As AWS documents it, jobs that are not found are reported as successful."""
    if len(request["jobs"]) > MAX_JOBS_TO_TERMINATE:
        refuse(f"jobs can have at most {MAX_JOBS_TO_TERMINATE} entries, not {len(request['jobs'])}.")
    for name in request["jobs"]:
        try:
            terminate_service_job(batch, owner, {"jobId": name, "reason": request["reason"]})
        except ClientException:
            continue
    return {"successful": request["jobs"], "errors": []}


def summarize(job: ServiceJob) -> dict[str, Any]:
    """Return the entry of a job in ListServiceJobs."""
    summary = {
        "jobArn": job.arn,
        "jobId": job.id,
        "jobName": job.name,
        "serviceJobType": job.request["serviceJobType"],
        "shareIdentifier": job.request.get("shareIdentifier"),
        "quotaShareName": job.request.get("quotaShareName"),
        "status": job.status,
        "statusReason": job.status_reason or None,
        "capacityUsage": [{"capacityUnit": job.instance_type, "quantity": float(job.instances)}],
        "createdAt": job.created_ms,
        "scheduledAt": job.latest_attempt and job.latest_attempt.scheduled_ms
        if job.status not in WAITING_STATUSES
        else None,
        "startedAt": job.started_ms,
        "stoppedAt": job.stopped_ms,
        "latestAttempt": job.latest_attempt and {"serviceResourceId": _identify_attempt(job.latest_attempt)},
        "isTerminated": job.is_terminated or None,
    }
    return {key: value for key, value in summary.items() if value is not None}


def _identify_attempt(attempt: Attempt) -> dict[str, str]:
    return {"name": "TrainingJobArn", "value": attempt.training_job_arn}


def _describe_attempt(attempt: Attempt) -> dict[str, Any]:
    description = {
        "serviceResourceId": _identify_attempt(attempt),
        "startedAt": attempt.started_ms,
        "stoppedAt": attempt.stopped_ms,
        "statusReason": attempt.reason or None,
    }
    return {key: value for key, value in description.items() if value is not None}


def _check_filters(filters: list[dict[str, Any]]) -> None:
    if len(filters) > 1:
        refuse("Only one filter can be used at a time.")
    for item in filters:
        if (name := item.get("name")) not in FILTERS:
            refuse(f"The filter {name} is not valid. It must be one of {', '.join(FILTERS)}.")
        for value in item.get("values", []):
            if name in TIME_FILTERS and not value.isdecimal():
                refuse(f"{value[:60]!r} is not a number of milliseconds since 1970.")


def _is_selected(job: ServiceJob, request: dict[str, Any]) -> bool:
    filters = request.get("filters") or []
    if not filters:
        return bool(job.status == request.get("jobStatus", RUNNING))
    name, values = filters[0]["name"], filters[0].get("values", [])
    # As AWS documents it: only the filters by share can be combined with jobStatus.
    if name in SHARE_FILTERS and job.status != request.get("jobStatus", job.status):
        return False
    return any(FILTERS[name](job, value) for value in values)


def _has_name(job: ServiceJob, value: str) -> bool:
    name, text = job.name.lower(), value.lower()
    return name.startswith(text[:-1]) if text.endswith("*") else name == text


FILTERS: dict[str, Callable[[ServiceJob, str], bool]] = {
    "JOB_NAME": _has_name,
    "BEFORE_CREATED_AT": lambda job, value: job.created_ms < int(value),
    "AFTER_CREATED_AT": lambda job, value: job.created_ms > int(value),
    "SHARE_IDENTIFIER": lambda job, value: job.request.get("shareIdentifier") == value,
    "QUOTA_SHARE_NAME": lambda job, value: job.request.get("quotaShareName") == value,
}
"""The filters of ListServiceJobs."""
