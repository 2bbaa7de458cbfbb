"""Describe a wait for a training job that a queue of AWS Batch starts."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

from leeway.hooks.sagemaker.wait import JobWait
from leeway.hooks.training.queue.service_job import find_queue_start

BATCH_HOOK = partial(AwsBaseHook, client_type="batch")
"""Creates a hook of AWS Batch. `AwsConnection.create_hook` takes it in place of a class."""


@dataclass(frozen=True)
class QueuedJobWait(JobWait):
    """The wait for a service job, which is submitted first, and then for its training job.

    `job_name` is the service job's name, `request` the request to SubmitServiceJob. `max_duration_s` includes the wait
    in the queue. The other limits are those of the training job.

    Args:
        queue: name or ARN of the queue.
        max_queue_s: maximum seconds of one wait in the queue.
    """

    queue: str = ""
    max_queue_s: int = 0

    def build_job_wait(self, training_job: str) -> JobWait:
        """Return the wait for the training job, once it exists."""
        values = {field.name: getattr(self, field.name) for field in fields(JobWait)}
        max_duration_s = self.max_duration_s - self.max_queue_s
        return JobWait(**{**values, "job_name": training_job, "request": None, "max_duration_s": max_duration_s})

    def has_waited_too_long(self, service_job: Mapping[str, Any], now: dt.datetime) -> bool:
        """Return whether a waiting service job has waited for longer than `max_queue_s`."""
        return (now - find_queue_start(service_job)).total_seconds() > self.max_queue_s

    @asynccontextmanager
    async def open_batch(self) -> AsyncIterator[Any]:
        """Open a client of AWS Batch."""
        async with await self.connection.create_hook(BATCH_HOOK).get_async_conn() as batch:
            yield batch
