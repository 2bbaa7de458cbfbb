"""Waiting for a job: the same in the triggerer and in a worker."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, line, passes
from leeway.hooks.sagemaker.description import is_live, status_of
from leeway.hooks.sagemaker.job_log import JobLog
from leeway.hooks.sagemaker.named_jobs import LOST, call
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger
from pipelines.costs.job_records import ended_at

WATCHER_TAG = "leeway:watcher"
"""Tag of a job: which trigger of which try waits for it."""


async def watched(watch: JobWait, log: Logger) -> WaitEvent:
    """Waits until the job has ended, or was stopped here and had its time to end.

    An endpoint that throttles, fails or restarts is asked again for as long as the job may live.
    """
    look, outage = _Look(watch, log), Outage(log, "SageMaker")
    gives_up = asyncio.get_running_loop().time() + watch.gives_up_s
    while True:
        try:
            return await look.until_over(outage)
        except Exception as error:
            if not passes(error):
                return watch.event("error", line(error))
            delay_s = outage.goes_on(error)
            if asyncio.get_running_loop().time() > gives_up:
                return watch.event("silent", line(error))
        await asyncio.sleep(min(delay_s, 2 * watch.check_interval_s))


async def stopped(watch: JobWait, log: Logger) -> None:
    """SageMaker was told to stop the job; asked again while it does not answer."""
    outage = Outage(log, "SageMaker")
    while True:
        try:
            async with watch.clients() as (sagemaker, _):
                await _stop(sagemaker, watch)
            log.warning("%s job %s: told to stop; %s", watch.kind, watch.job_name, LOST[watch.kind])
            return
        except Exception as error:
            if not passes(error):
                raise
            await asyncio.sleep(outage.goes_on(error))


async def watches(watch: JobWait, who: str) -> None:
    """The job's tag `WATCHER_TAG` says `who`."""
    async with watch.clients() as (sagemaker, _):
        arn = await _arn(sagemaker, watch)
        await sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": WATCHER_TAG, "Value": who}])


async def watcher(watch: JobWait) -> str:
    """Who watches the job, as its tag says; empty where none does."""
    async with watch.clients() as (sagemaker, _):
        tags = (await sagemaker.list_tags(ResourceArn=await _arn(sagemaker, watch)))["Tags"]
    return next((str(one["Value"]) for one in tags if one["Key"] == WATCHER_TAG), "")


async def _described(sagemaker: Any, watch: JobWait) -> dict[str, Any]:
    return dict(await call(sagemaker, "describe", watch.kind, watch.job_name))


async def _arn(sagemaker: Any, watch: JobWait) -> str:
    return str((await _described(sagemaker, watch))[f"{watch.kind.capitalize()}JobArn"])


async def _stop(sagemaker: Any, watch: JobWait) -> None:
    try:
        await call(sagemaker, "stop", watch.kind, watch.job_name)
    except ClientError as error:
        if passes(error):
            raise
        # Else it ended meanwhile.


class _Look:
    """What was seen and told of a job so far."""

    def __init__(self, watch: JobWait, log: Logger) -> None:
        self.watch, self.log = watch, log
        self.lines = JobLog(watch.job_name, log, watch.kind)
        self._told: set[tuple[str, dt.datetime]] = set()

    async def until_over(self, outage: Outage) -> WaitEvent:
        async with self.watch.clients() as (sagemaker, logs):
            while True:
                job = await _described(sagemaker, self.watch)
                outage.is_over()
                self._tell_states(job)
                live = is_live(job)
                await self.lines.show(logs, final=not live)
                if not live:
                    return self._ended(job)
                if event := await self._kept_in_bounds(sagemaker, job):
                    return event
                await asyncio.sleep(self.watch.check_interval_s)

    def _tell_states(self, job: Mapping[str, Any]) -> None:
        for one in job.get("SecondaryStatusTransitions", []):
            key = (one["Status"], one["StartTime"])
            if key not in self._told:
                self._told.add(key)
                since = one["StartTime"].astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
                text = (self.watch.kind, self.watch.job_name, one["Status"], since, one.get("StatusMessage", ""))
                self.log.info("%s job %s: %s since %s UTC. %s", *text)

    def _ended(self, job: Mapping[str, Any]) -> WaitEvent:
        """Only a job that was stopped can have been stopped here: after its bounds, not before."""
        excess = self.watch.excess(job, ended_at(job)) if status_of(job) == "Stopped" else None
        return self.watch.event(*(excess or ("ended", "")))

    async def _kept_in_bounds(self, sagemaker: Any, job: Mapping[str, Any]) -> WaitEvent | None:
        """A job past its bounds is told to stop. The event, where it then did not end in time either."""
        now = dt.datetime.now(dt.UTC)
        excess = self.watch.excess(job, now)
        if excess and status_of(job) == "InProgress":
            self.log.warning("stopping %s job %s: %s", self.watch.kind, self.watch.job_name, excess[1])
            await _stop(sagemaker, self.watch)
        return self.watch.event(*excess) if excess and self.watch.age_s(job, now) > self.watch.gives_up_s else None
