"""Answer SubmitServiceJob: check a service job, and store it in its queue."""

import re
import uuid
from typing import Any

from drydock.batch.errors import refuse
from drydock.batch.jobs import ServiceJob
from drydock.batch.payload import parse_payload, read_instances
from drydock.batch.queues import BatchQueues
from drydock.batch.records import DELETING, DISABLED, Queue
from drydock.batch.requests.policies import MAX_SHARES, SHARE_PATTERN
from drydock.batch.requests.rules import build_arn, check_name, check_range
from drydock.resources import Owner

# The limits of AWS Batch: for schedulingPriority, attempts, the number of rules in evaluateOnExit, and the length of
# a rule's pattern onStatusReason.
MAX_PRIORITY = 9_999
MAX_ATTEMPTS = 10
MAX_RETRY_RULES = 5
MAX_PATTERN_CHARS = 512


def submit_service_job(batch: BatchQueues, owner: Owner, request: dict[str, Any]) -> dict[str, Any]:
    """Answer SubmitServiceJob. A second request with the same clientToken gets the job of the first request.

    If the two requests differ in more than their tags, the second is refused.
    """
    stored_request = {key: value for key, value in request.items() if key != "tags"}
    if earlier_job := _find_by_token(batch, owner, request.get("clientToken")):
        if earlier_job.request != stored_request:
            refuse("The clientToken was already used for another request.")
        return _identify(earlier_job)
    check_name(request["jobName"], "jobName")
    queue = batch.find_queue(owner, request["jobQueue"])
    if queue.state == DISABLED or queue.status == DELETING:
        refuse(f"Job queue {queue.name} is {DISABLED}: it accepts no jobs.")
    _check_share(batch, owner, queue, request)
    _check_numbers(request)
    instance_type, instances = read_instances(parse_payload(request["serviceRequestPayload"]))
    job_id = str(uuid.uuid4())
    job = ServiceJob(
        request["jobName"],
        build_arn(owner, f"service-job/{job_id}"),
        job_id,
        1 + max((job.number for job in batch.tables.jobs.list_all(owner)), default=0),
        stored_request,
        queue.arn,
        instance_type,
        instances,
        batch.now_ms,
        request.get("schedulingPriority", 0),
        tags=request.get("tags", {}),
    )
    batch.save_job(owner, job)
    return _identify(job)


def check_priority(priority: int) -> None:
    """Check a schedulingPriority.

    Raises:
        ClientException: It is not between 0 and 9999.
    """
    check_range(priority, 0, MAX_PRIORITY, "schedulingPriority")


def _identify(job: ServiceJob) -> dict[str, Any]:
    return {"jobArn": job.arn, "jobName": job.name, "jobId": job.id}


def _find_by_token(batch: BatchQueues, owner: Owner, token: str | None) -> ServiceJob | None:
    jobs = batch.tables.jobs.list_all(owner) if token else []
    return next((job for job in jobs if job.request.get("clientToken") == token), None)


def _check_share(batch: BatchQueues, owner: Owner, queue: Queue, request: dict[str, Any]) -> None:
    """Check that a job has the kind of share that its queue requires, and not the other kind."""
    policy = batch.tables.find_policy(owner, queue)
    share, quota_share = request.get("shareIdentifier"), request.get("quotaShareName")
    is_fair, is_quota = policy is not None and policy.quota_share is None, policy is not None and policy.quota_share
    if share is not None and not is_fair:
        refuse(f"shareIdentifier can't be specified: job queue {queue.name} has no fair-share scheduling policy.")
    if quota_share is not None and not is_quota:
        refuse(f"quotaShareName can't be specified: job queue {queue.name} has no quota share scheduling policy.")
    if "preemptionConfiguration" in request and not is_quota:
        refuse(f"preemptionConfiguration can't be specified: job queue {queue.name} has no quota share policy.")
    if is_fair:
        if share is None:
            refuse(f"shareIdentifier must be specified: job queue {queue.name} has a fair-share scheduling policy.")
        _check_share_identifier(batch, owner, queue, share)
    if is_quota:
        if quota_share is None:
            refuse(f"quotaShareName must be specified: job queue {queue.name} has a quota share scheduling policy.")
        _check_quota_share(batch, owner, queue, quota_share)


def _check_share_identifier(batch: BatchQueues, owner: Owner, queue: Queue, share: str) -> None:
    if not re.fullmatch(SHARE_PATTERN, share):
        refuse(f"shareIdentifier {share[:300]!r} is not valid. It must have 1 to 255 alphanumeric characters.")
    active_shares = {job.share for job in batch.tables.list_jobs(owner, queue) if not job.is_final}
    if share not in active_shares and len(active_shares) >= MAX_SHARES:
        refuse(f"Job queue {queue.name} has {MAX_SHARES} active share identifiers, and can have no more.")


def _check_quota_share(batch: BatchQueues, owner: Owner, queue: Queue, name: str) -> None:
    shares = {share.name: share for share in batch.tables.list_quota_shares(owner, queue)}
    if name not in shares:
        refuse(f"QuotaShare {name} not found in job queue {queue.name}.")
    if shares[name].state == DISABLED:
        refuse(f"Quota share {name} is {DISABLED}: it accepts no jobs.")


def _check_numbers(request: dict[str, Any]) -> None:
    check_priority(request.get("schedulingPriority", 0))
    if strategy := request.get("retryStrategy"):
        check_range(strategy["attempts"], 1, MAX_ATTEMPTS, "attempts")
        rules = strategy.get("evaluateOnExit", [])
        if len(rules) > MAX_RETRY_RULES:
            refuse(f"evaluateOnExit can have at most {MAX_RETRY_RULES} entries, not {len(rules)}.")
        if any(len(rule.get("onStatusReason", "")) > MAX_PATTERN_CHARS for rule in rules):
            refuse(f"onStatusReason can have at most {MAX_PATTERN_CHARS} characters.")
    if request.get("timeoutConfig", {}).get("attemptDurationSeconds", 1) < 1:
        refuse("attemptDurationSeconds must be a positive number of seconds.")
    if request.get("preemptionConfiguration", {}).get("preemptionRetriesBeforeTermination", 0) < 0:
        refuse("preemptionRetriesBeforeTermination must not be negative.")
