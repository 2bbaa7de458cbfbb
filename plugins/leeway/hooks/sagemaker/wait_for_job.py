"""Start a job, wait until it ends, and stop it if it exceeds a limit. The triggerer and workers use the same code.

The code that waits for a job also starts it. So a deferred task has no job before its trigger runs. If a person marks
the task as success or as failed before that, no job has to be stopped.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, get_error_code, is_permanent, is_transient
from leeway.hooks.sagemaker.description import TRIALS, get_job_status, is_live
from leeway.hooks.sagemaker.logs.job_log import JobLog
from leeway.hooks.sagemaker.logs.trial_log import TrialLog
from leeway.hooks.sagemaker.named_jobs import ENDED_CODES, LOST_BY_STOP, call_operation, get_sagemaker_kind
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import get_end_time

T = TypeVar("T")

WAITER_TAG = "leeway:waiter"
"""Key of a job's tag. Its value names the trigger that waits for the job, and the try of the trigger's task."""


async def start_and_wait_for_job(wait: JobWait, log: Logger) -> WaitEvent:
    """Start the job unless it exists, wait for its end, and return how the wait ended."""
    wait_or_event = await start_job(wait, log)
    return await wait_for_job(wait_or_event, log) if isinstance(wait_or_event, JobWait) else wait_or_event


async def start_job(wait: JobWait, log: Logger) -> JobWait | WaitEvent:
    """Start the job unless it exists. Idempotent.

    Returns:
        The wait for the job, or how the wait ended if the job could not be started.
    """
    if wait.request is None:
        return wait
    return await call_until_answered(wait, log, lambda _: _create_job(wait, log))


async def wait_for_job(wait: JobWait, log: Logger, stop: Callable[[Any], Awaitable[None]] | None = None) -> WaitEvent:
    """Wait until the job has ended, and show its states and its log meanwhile. Stop it if it exceeds a limit.

    While SageMaker throttles requests or does not answer, they are retried for at most `max_age_s` seconds.

    Args:
        wait: the job, and its limits.
        log: log of the task.
        stop: function that stops the job, given a client of SageMaker; None: the job is stopped by `request_stop`.

    Returns:
        How the wait ended. The wait also ends when the job is older than `max_age_s`, and after an error for
        which a retry cannot help.
    """
    return await call_until_answered(wait, log, _JobMonitor(wait, log, stop or partial(request_stop, wait=wait)).run)


async def stop_job(wait: JobWait, log: Logger) -> None:
    """Request that the job stops; retry the request while SageMaker does not answer. Idempotent.

    Raises:
        ClientError: the request was refused, for example because the role may not stop jobs. The log says so.
    """

    async def request() -> None:
        async with wait.open_clients() as (sagemaker, _):
            await request_stop(sagemaker, wait)
        log.warning("%s job %s: stop requested; %s", wait.kind, wait.job_name, LOST_BY_STOP[wait.kind])

    try:
        await retry_without_limit(request, log)
    except Exception as error:
        line = "%s job %s runs on, and costs money, because the request to stop it failed: %s"
        log.error(line, wait.kind, wait.job_name, format_error_line(error))
        raise


async def retry_without_limit(call: Callable[[], Awaitable[None]], log: Logger, service: str = "SageMaker") -> None:
    """Call a function, and retry it while the service does not answer. Raise an error for which a retry cannot help."""
    outage = Outage(log, service)
    while True:
        try:
            return await call()
        except Exception as error:
            if not is_transient(error):
                raise
            await asyncio.sleep(outage.record_failure(error))


async def tag_waiter(wait: JobWait, waiter: str) -> None:
    """Set the job's tag `WAITER_TAG` to `waiter`, the trigger that waits for the job. Idempotent."""
    async with wait.open_clients() as (sagemaker, _):
        arn = await _find_arn(sagemaker, wait)
        await sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": WAITER_TAG, "Value": waiter}])


async def read_waiter(wait: JobWait) -> str:
    """Return the job's tag `WAITER_TAG`, the trigger that waits for the job; empty if it has no such tag."""
    async with wait.open_clients() as (sagemaker, _):
        tags = (await sagemaker.list_tags(ResourceArn=await _find_arn(sagemaker, wait)))["Tags"]
    return next((str(tag["Value"]) for tag in tags if tag["Key"] == WAITER_TAG), "")


async def call_until_answered(
    wait: JobWait, log: Logger, call: Callable[[Outage], Awaitable[T]], service: str = "SageMaker"
) -> T | WaitEvent:
    """Return the result of `call`. Retry it for at most `max_age_s` seconds while the service does not answer.

    Returns:
        The result of `call`; or how the wait ended, if there was no answer in this time, or an error for which a retry
        cannot help.
    """
    outage = Outage(log, service)
    deadline = asyncio.get_running_loop().time() + wait.max_age_s
    while True:
        try:
            return await call(outage)
        except Exception as error:
            if not is_transient(error):
                return wait.build_event("refused" if is_permanent(error) else "error", format_error_line(error))
            delay_s = outage.record_failure(error)
            if asyncio.get_running_loop().time() > deadline:
                return wait.build_event("no_answer", format_error_line(error))
        await asyncio.sleep(min(delay_s, 2 * wait.check_interval_s))


async def _create_job(wait: JobWait, log: Logger) -> JobWait:
    """Create the job, and return the wait for it. If another process created it first, the wait attaches to it."""
    try:
        async with wait.open_clients() as (sagemaker, _):
            await call_operation(sagemaker, "create", wait.kind, wait.job_name, **(wait.request or {}))
    except ClientError as error:
        if get_error_code(error) != "ResourceInUse":
            raise
        return replace(wait, request=None, attached_at=dt.datetime.now(dt.UTC).isoformat())
    log.info("started %s job %s", wait.kind, wait.job_name)
    return replace(wait, request=None)


async def _describe(sagemaker: Any, wait: JobWait) -> dict[str, Any]:
    return dict(await call_operation(sagemaker, "describe", wait.kind, wait.job_name))


async def _find_arn(sagemaker: Any, wait: JobWait) -> str:
    return str((await _describe(sagemaker, wait))[f"{get_sagemaker_kind(wait.kind)}JobArn"])


async def request_stop(sagemaker: Any, wait: JobWait) -> None:
    """Request once that the job stops. Ignore the error that the job has ended or does not exist."""
    try:
        await call_operation(sagemaker, "stop", wait.kind, wait.job_name)
    except ClientError as error:
        if get_error_code(error) not in ENDED_CODES:
            raise


class _JobMonitor:
    """Log each state of a job, and each line of its log, once; stop the job when it exceeds a limit."""

    def __init__(self, wait: JobWait, log: Logger, stop: Callable[[Any], Awaitable[None]]) -> None:
        self.wait, self.log, self._stop = wait, log, stop
        self.job_log = None if wait.kind == "tuning" else JobLog(wait.job_name, log, wait.kind)
        self.trial_log = TrialLog(wait.job_name, log) if wait.kind == "tuning" else None
        self._logged_states: set[tuple[str, dt.datetime]] = set()

    async def run(self, outage: Outage) -> WaitEvent:
        """Wait, and return how the wait ended. After an error of AWS, call `run` again to continue the wait."""
        async with self.wait.open_clients() as (sagemaker, logs):
            while True:
                job = await _describe(sagemaker, self.wait)
                has_ended = not is_live(job)
                if self.trial_log:
                    job[TRIALS] = await self.trial_log.describe_trials(sagemaker)
                outage.record_response()
                self._log_states(job)
                if self.job_log:
                    await self.job_log.show_new_lines(logs, is_final=has_ended)
                if has_ended:
                    return self._build_end_event(job)
                if event := await self._enforce_limits(sagemaker, job):
                    return event
                await asyncio.sleep(self.wait.check_interval_s)

    def _log_states(self, job: Mapping[str, Any]) -> None:
        for state in job.get("SecondaryStatusTransitions", []):
            key = (state["Status"], state["StartTime"])
            if key not in self._logged_states:
                self._logged_states.add(key)
                start_text = state["StartTime"].astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
                values = (
                    self.wait.kind,
                    self.wait.job_name,
                    state["Status"],
                    start_text,
                    state.get("StatusMessage", ""),
                )
                self.log.info("%s job %s: %s since %s UTC. %s", *values)

    def _build_end_event(self, job: Mapping[str, Any]) -> WaitEvent:
        """Return the event of a job that ended. Only a job that was stopped can have exceeded a limit of the wait."""
        limit = self.wait.find_exceeded_limit(job, get_end_time(job)) if get_job_status(job) == "Stopped" else None
        return self.wait.build_event(*(limit or ("ended", "")))

    async def _enforce_limits(self, sagemaker: Any, job: Mapping[str, Any]) -> WaitEvent | None:
        """Stop a job that exceeds a limit. Return the event that ends the wait if the job is older than `max_age_s`."""
        now = dt.datetime.now(dt.UTC)
        limit = self.wait.find_exceeded_limit(job, now)
        if limit and get_job_status(job) == "InProgress":
            self.log.warning("stopping %s job %s: %s", self.wait.kind, self.wait.job_name, limit[1])
            await self._stop(sagemaker)
        return (
            self.wait.build_event(*limit) if limit and self.wait.compute_age_s(job, now) > self.wait.max_age_s else None
        )
