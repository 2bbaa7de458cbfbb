"""Change the state of AWS Batch's service jobs: begin, update, stop and end their attempts.

Each attempt has one training job. A change is stored before it takes effect on the training job. If the server is
killed between the two, the next server calls `update_from_training_job`, which causes the effect. A repeated effect
changes nothing.
"""

import logging
from datetime import datetime

from moto.core.exceptions import JsonRESTError, ServiceException

from drydock.batch.jobs import (
    FAILED,
    RUNNABLE,
    RUNNING,
    SCHEDULED,
    STARTING,
    SUCCEEDED,
    WAITING_STATUSES,
    Attempt,
    ServiceJob,
    StopCause,
)
from drydock.batch.payload import parse_payload, read_base_name
from drydock.batch.queues import BatchQueues
from drydock.batch.scheduling.retries import STATUS_PREFIX, should_retry
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner

log = logging.getLogger(__name__)

TIMEOUT_REASON = "Job attempt duration exceeded timeout"
"""AWS Batch's status reason of a job whose attempt took longer than attemptDurationSeconds."""
STATUS_OF_PHASE = {Phase.STARTING: SCHEDULED, Phase.DOWNLOADING: STARTING}
"""The status of a service job in the first phases of its training job. In later phases, it is RUNNING."""


def begin_attempt(batch: BatchQueues, owner: Owner, job: ServiceJob, environment: str) -> None:
    """Give a waiting job its instances, and create its training job.

    Args:
        batch: The queues of AWS Batch.
        owner: The owner of the job.
        job: The job.
        environment: ARN of the service environment with the instances.
    """
    name = job.build_training_job_name(read_base_name(parse_payload(job.request["serviceRequestPayload"]), job.name))
    attempt = Attempt(name, batch.training_jobs.build_arn(owner, name), environment, batch.now_ms)
    job.current_attempt = job.latest_attempt = attempt
    job.status, job.status_reason = SCHEDULED, ""
    batch.save_job(owner, job)
    log.info("service job %s: starts the training job %s", job.name, name)
    update_from_training_job(batch, owner, job)


def update_from_training_job(batch: BatchQueues, owner: Owner, job: ServiceJob) -> None:
    """Update a job from the training job of its current attempt. A job without a current attempt is not changed.

    A missing training job is created. A running one is stopped if a stop was requested, or if it takes too long. The
    end of the training job is stored.
    """
    attempt = job.current_attempt
    if attempt is None:
        return
    training_job = batch.training_jobs.find(owner, attempt.training_job)
    if training_job is None:
        _create_training_job(batch, owner, job, attempt)
    elif training_job.status.is_final:
        _end_attempt(batch, owner, job, attempt, training_job)
    else:
        _update_running_job(batch, owner, job, attempt, training_job)


def stop_attempt(batch: BatchQueues, owner: Owner, job: ServiceJob, cause: StopCause, reason: str) -> None:
    """Stop the training job of a service job. A job without a current attempt is not changed.

    If a stop was requested already, only the cause TERMINATED has an effect.
    """
    attempt = job.current_attempt
    if attempt is None or (attempt.stop_cause is not None and cause is not StopCause.TERMINATED):
        return
    log.info("service job %s: stops the training job %s (%s)", job.name, attempt.training_job, cause)
    attempt.stop_cause, attempt.stop_reason = cause, reason
    batch.save_job(owner, job)
    update_from_training_job(batch, owner, job)


def terminate(batch: BatchQueues, owner: Owner, job: ServiceJob, reason: str) -> None:
    """End a job. A job with a training job ends when the training job has stopped, a waiting job ends at once.

    A job that has ended is not changed.
    """
    if job.is_final:
        return
    job.is_terminated = True
    if job.current_attempt is None:
        _end_job(batch, owner, job, FAILED, reason, batch.now_ms)
    else:
        stop_attempt(batch, owner, job, StopCause.TERMINATED, reason)


def count_preemptions_left(job: ServiceJob) -> float:
    """Return how many more times a job can be preempted and wait again; infinity without a limit."""
    limit = job.request.get("preemptionConfiguration", {}).get("preemptionRetriesBeforeTermination")
    return float("inf") if limit is None else limit - len(job.preempted_attempts)


def _create_training_job(batch: BatchQueues, owner: Owner, job: ServiceJob, attempt: Attempt) -> None:
    if attempt.stop_cause is not None:  # stopped before it was created
        return _end_unsuccessful_attempt(batch, owner, job, attempt, batch.now_ms, attempt.stop_reason)
    payload = parse_payload(job.request["serviceRequestPayload"])
    # The sagemaker SDK sends the tags of the training job as tags of the service job.
    tags = {tag["Key"]: tag["Value"] for tag in payload.get("Tags", [])} | job.tags
    request = {**payload, "TrainingJobName": attempt.training_job}
    if tags:
        request["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
    try:
        batch.training_jobs.start(owner, request)
    except (JsonRESTError, ServiceException) as error:  # moto's two base classes of errors
        code = error.code if isinstance(error, ServiceException) else error.error_type
        reason = f"{STATUS_PREFIX}{code}: {error.message}"
        _end_unsuccessful_attempt(batch, owner, job, attempt, batch.now_ms, reason)


def _update_running_job(
    batch: BatchQueues, owner: Owner, job: ServiceJob, attempt: Attempt, training_job: TrainingJob
) -> None:
    # If the training job is stopped before its start, the status stays.
    status = STATUS_OF_PHASE.get(training_job.phase, RUNNING if training_job.started_at else job.status)
    started_ms = _to_ms(training_job.started_at) if training_job.started_at else None
    if (status, started_ms) != (job.status, attempt.started_ms):
        job.status, attempt.started_ms = status, started_ms
        job.started_ms = job.started_ms or started_ms
        batch.save_job(owner, job)
    limit_s = job.request.get("timeoutConfig", {}).get("attemptDurationSeconds")
    if attempt.stop_cause is not None:
        if not training_job.stop_event.is_set():
            batch.training_jobs.stop(training_job)
    elif limit_s and started_ms and batch.now_ms - started_ms >= limit_s * 1_000:
        stop_attempt(batch, owner, job, StopCause.TIMEOUT, TIMEOUT_REASON)


def _end_attempt(
    batch: BatchQueues, owner: Owner, job: ServiceJob, attempt: Attempt, training_job: TrainingJob
) -> None:
    attempt.started_ms = _to_ms(training_job.started_at) if training_job.started_at else None
    job.started_ms = job.started_ms or attempt.started_ms
    stopped_ms = _to_ms(training_job.ended_at) if training_job.ended_at else batch.now_ms
    if training_job.status is Status.STOPPED and attempt.stop_cause is not None:
        reason = attempt.stop_reason
    elif training_job.status is Status.FAILED:
        if attempt.stop_cause is not StopCause.TERMINATED:  # it failed by itself, before it was stopped
            attempt.stop_cause, attempt.stop_reason = None, ""
        reason = f"{STATUS_PREFIX}{training_job.record.reason}"
    else:
        reason = f"{STATUS_PREFIX}{training_job.record.transitions[-1].message}"
    if training_job.status is Status.COMPLETED:  # even if a stop was requested: it came too late
        attempt.stopped_ms, attempt.reason, job.current_attempt = stopped_ms, reason, None
        job.ended_attempts.append(attempt)
        return _end_job(batch, owner, job, SUCCEEDED, reason, stopped_ms)
    _end_unsuccessful_attempt(batch, owner, job, attempt, stopped_ms, reason)


def _end_unsuccessful_attempt(
    batch: BatchQueues, owner: Owner, job: ServiceJob, attempt: Attempt, stopped_ms: int, reason: str
) -> None:
    """End an attempt that did not complete. The job waits for another attempt, or fails."""
    attempt.stopped_ms, attempt.reason, job.current_attempt = stopped_ms, reason, None
    if attempt.stop_cause is StopCause.PREEMPTED:
        can_continue = count_preemptions_left(job) > 0
        job.preempted_attempts.append(attempt)
    else:
        job.ended_attempts.append(attempt)
        has_failed_by_itself = attempt.stop_cause is None
        can_continue = has_failed_by_itself and should_retry(
            job.request.get("retryStrategy"), len(job.ended_attempts), reason
        )
    if not can_continue:
        return _end_job(batch, owner, job, FAILED, attempt.stop_reason or reason, stopped_ms)
    job.status, job.status_reason = RUNNABLE, reason
    log.info("service job %s: waits again: %s", job.name, reason)
    batch.save_job(owner, job)


def _end_job(batch: BatchQueues, owner: Owner, job: ServiceJob, status: str, reason: str, stopped_ms: int) -> None:
    job.status, job.status_reason, job.stopped_ms = status, reason, stopped_ms
    log.info("service job %s: %s: %s", job.name, status, reason)
    batch.save_job(owner, job)


def is_waiting(job: ServiceJob) -> bool:
    """Return whether a job waits for instances."""
    return job.status in WAITING_STATUSES


def _to_ms(time: datetime) -> int:
    return int(time.timestamp() * 1_000)
