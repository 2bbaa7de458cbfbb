"""Submit a service job to a queue, wait in the queue, and then wait for its training job.

The triggerer and workers use the same code.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, get_error_code
from leeway.hooks.sagemaker.named_jobs import LOST_BY_STOP, call_operation, is_missing
from leeway.hooks.sagemaker.wait import WaitEvent
from leeway.hooks.sagemaker.wait_for_job import (
    WAITER_TAG,
    call_until_answered,
    request_stop,
    retry_without_limit,
    wait_for_job,
)
from leeway.hooks.step.hook import Logger
from leeway.hooks.training.queue.position import PositionReader
from leeway.hooks.training.queue.queued_jobs import STOP_REASON
from leeway.hooks.training.queue.service_job import (
    WAITING_STATES,
    build_list_request,
    find_queue_start,
    get_latest_training_job_name,
    has_ended,
)
from leeway.hooks.training.queue.wait import QueuedJobWait

SERVICE = "AWS Batch or SageMaker"
"""Name of the services in the log."""
LIMIT_REASON = "waited for longer than max_queue_s in the queue"
"""Reason with which a service job that waited for too long is terminated."""


async def submit_and_wait_for_job(wait: QueuedJobWait, log: Logger) -> WaitEvent:
    """Submit the service job unless it exists, wait for the end of its training job, and return how the wait ended."""
    wait_or_event = await submit_job(wait, log)
    return await wait_for_queued_job(wait_or_event, log) if isinstance(wait_or_event, QueuedJobWait) else wait_or_event


async def submit_job(wait: QueuedJobWait, log: Logger) -> QueuedJobWait | WaitEvent:
    """Submit the service job unless it exists. Idempotent.

    Returns:
        The wait for the job, or how the wait ended if the job could not be submitted.
    """
    if wait.request is None:
        return wait
    return await call_until_answered(wait, log, lambda _: _submit(wait, log), SERVICE)


async def wait_for_queued_job(wait: QueuedJobWait, log: Logger) -> WaitEvent:
    """Wait in the queue, and then for the training job, as `wait_for_job` does.

    Returns:
        How the wait ended: for the training job or, if there is none, for the service job. If the training job was
        preempted, the wait ends with this training job, although the service job waits again.
    """
    name_or_event = await call_until_answered(wait, log, _QueueMonitor(wait, log).run, SERVICE)
    if not isinstance(name_or_event, str):
        return name_or_event
    event = await wait_for_job(wait.build_job_wait(name_or_event), log, lambda _: stop_queued_job(wait, log))
    if event["cause"] == "ended":
        await call_until_answered(wait, log, lambda _: _wait_for_batch(wait, name_or_event), SERVICE)
    return event


async def stop_queued_job(wait: QueuedJobWait, log: Logger) -> None:
    """Terminate the service job, and stop its training job; retry while AWS does not answer. Idempotent."""
    await retry_without_limit(partial(_terminate, wait, log), log, SERVICE)


async def tag_queue_waiter(wait: QueuedJobWait, waiter: str) -> None:
    """Set the service job's tag `WAITER_TAG` to `waiter`, the trigger that waits for the job. Idempotent."""
    async with wait.open_batch() as batch:
        if service_job := await _find_service_job(batch, wait):
            await batch.tag_resource(resourceArn=service_job["jobArn"], tags={WAITER_TAG: waiter})


async def read_queue_waiter(wait: QueuedJobWait) -> str:
    """Return the service job's tag `WAITER_TAG`, the trigger that waits for the job; empty if it has no such tag."""
    async with wait.open_batch() as batch:
        service_job = await _find_service_job(batch, wait)
    return str((service_job or {}).get("tags", {}).get(WAITER_TAG, ""))


async def _submit(wait: QueuedJobWait, log: Logger) -> QueuedJobWait:
    """Submit the job, and return the wait for it. If another process submitted it first, the wait attaches to it."""
    async with wait.open_batch() as batch:
        existing_job = await _find_service_job(batch, wait)
        try:
            if not existing_job:
                await batch.submit_service_job(**(wait.request or {}))
        except ClientError as error:
            # If another process has just submitted it, AWS refuses a second job with the same client token. (drydock
            # answers with the first job instead.)
            existing_job = await _find_service_job(batch, wait) if get_error_code(error) == "ClientException" else None
            if not existing_job:
                raise
    if existing_job:
        return replace(wait, request=None, attached_at=dt.datetime.now(dt.UTC).isoformat())
    log.info("submitted service job %s to queue %s", wait.job_name, wait.queue)
    return replace(wait, request=None)


async def _find_service_job(batch: Any, wait: QueuedJobWait) -> dict[str, Any] | None:
    """Return the description of the service job; None if it does not exist."""
    request = build_list_request(wait.queue, wait.job_name)
    summaries = (await batch.list_service_jobs(**request))["jobSummaryList"]
    ids = [summary["jobId"] for summary in summaries if summary["jobName"] == wait.job_name]
    return dict(await batch.describe_service_job(jobId=ids[0])) if ids else None


async def _terminate(wait: QueuedJobWait, log: Logger) -> None:
    async with wait.open_batch() as batch, wait.open_clients() as (sagemaker, _):
        service_job = await _find_service_job(batch, wait)
        if not service_job or has_ended(service_job):
            return
        await batch.terminate_service_job(jobId=service_job["jobId"], reason=STOP_REASON)
        if training_job := get_latest_training_job_name(service_job):
            await request_stop(sagemaker, replace(wait, job_name=training_job))
    log.warning("service job %s: termination requested; %s", wait.job_name, LOST_BY_STOP["training"])


async def _wait_for_batch(wait: QueuedJobWait, training_job: str) -> None:
    """Wait until Batch has noticed the end of the training job, and ends the service job or queues it again."""
    async with wait.open_batch() as batch:
        while (service_job := await _find_service_job(batch, wait)) and not has_ended(service_job):
            is_latest = get_latest_training_job_name(service_job) == training_job
            if service_job["status"] in WAITING_STATES or not is_latest:
                return
            await asyncio.sleep(wait.check_interval_s)


class _QueueMonitor:
    """Wait until a service job has a training job, or has ended without one; log its states."""

    def __init__(self, wait: QueuedJobWait, log: Logger) -> None:
        self.wait, self.log = wait, log
        self._positions = PositionReader(wait.queue, log)
        self._logged_state: tuple[Any, ...] | None = None

    async def run(self, outage: Outage) -> str | WaitEvent:
        """Return the name of the training job, or how the wait ended. After an error of AWS, call `run` again."""
        async with AsyncExitStack() as stack:
            batch = await stack.enter_async_context(self.wait.open_batch())
            sagemaker, _ = await stack.enter_async_context(self.wait.open_clients())
            while True:
                service_job = await _find_service_job(batch, self.wait)
                outage.record_response()
                if service_job is None:
                    return self.wait.build_event("error", f"queue {self.wait.queue} has no such service job")
                await self._log_state(batch, service_job)
                result = await self._find_result(sagemaker, service_job)
                if result:
                    return result
                await self._enforce_limit(batch, service_job)
                await asyncio.sleep(self.wait.check_interval_s)

    async def _find_result(self, sagemaker: Any, service_job: Mapping[str, Any]) -> str | WaitEvent | None:
        """Return the name of the training job to wait for, or how the wait ended; None while the job waits."""
        training_job = get_latest_training_job_name(service_job)
        has_training_job = bool(training_job) and await _exists(sagemaker, training_job)
        if has_ended(service_job):
            if str(service_job.get("statusReason", "")).startswith(LIMIT_REASON):
                return self._build_limit_event(training_job if has_training_job else "")
            return training_job if has_training_job else self.wait.build_event("ended")
        is_waiting = service_job["status"] in WAITING_STATES
        return training_job if has_training_job and not is_waiting else None

    def _build_limit_event(self, preempted_job: str) -> WaitEvent:
        """Return how the wait ended for a service job that waited for too long.

        Args:
            preempted_job: the training job that the service job had before it waited again; empty without one.
        """
        wait = replace(self.wait, job_name=preempted_job or self.wait.job_name)
        queue, limit_s = self.wait.queue, self.wait.max_queue_s
        return wait.build_event("queue", f"it waited in queue {queue} for longer than max_queue_s ({limit_s} s)")

    async def _enforce_limit(self, batch: Any, service_job: Mapping[str, Any]) -> None:
        is_waiting = service_job["status"] in WAITING_STATES and not service_job.get("isTerminated")
        if is_waiting and self.wait.has_waited_too_long(service_job, dt.datetime.now(dt.UTC)):
            self.log.warning("terminating service job %s: %s", self.wait.job_name, LIMIT_REASON)
            await batch.terminate_service_job(jobId=service_job["jobId"], reason=LIMIT_REASON)

    async def _log_state(self, batch: Any, service_job: Mapping[str, Any]) -> None:
        status, reason = str(service_job["status"]), str(service_job.get("statusReason", ""))
        is_waiting = status in WAITING_STATES
        position = await self._positions.read(batch, service_job["jobArn"]) if is_waiting else None
        if (status, reason, position) != self._logged_state:
            self._logged_state = status, reason, position
            start_text = find_queue_start(service_job).strftime("%Y-%m-%d %H:%M:%S")
            position_text = f", position {position}" if position else ""
            values = (self.wait.job_name, status, self.wait.queue, start_text, position_text, reason)
            self.log.info("service job %s: %s; in queue %s since %s UTC%s. %s", *values)


async def _exists(sagemaker: Any, training_job: str) -> bool:
    """Return whether a training job exists. Batch reports the name shortly before it creates the job."""
    try:
        await call_operation(sagemaker, "describe", "training", training_job)
    except ClientError as error:
        if is_missing(error):
            return False
        raise
    return True
