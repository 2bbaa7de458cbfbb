"""Find and stop the training jobs of a task that submits them to a queue of AWS Batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
from airflow.providers.amazon.aws.hooks.sagemaker import SageMakerHook

from leeway.hooks.sagemaker.aws_errors import call_with_retries
from leeway.hooks.sagemaker.description import get_job_name
from leeway.hooks.step.hook import Logger
from leeway.hooks.training.inputs import TrainingJobs
from leeway.hooks.training.queue.service_job import (
    SERVICE_JOB,
    build_list_request,
    describe_attempts,
    get_latest_training_job_name,
    has_ended,
    list_training_job_names,
)

STOP_REASON = "stopped by the Airflow task"
"""Reason with which the task terminates a service job."""


class QueuedJobs(TrainingJobs):
    """Find and stop the service jobs BASE-1, BASE-2, ... of one task, and their training jobs.

    Training jobs of the task that were started without a queue are found, too.

    Args:
        hook: the Amazon provider's hook of SageMaker.
        log: log of the task.
        base: name of the service jobs without their number.
        batch_hook: a hook of the Amazon provider with a client of AWS Batch.
        queue: name or ARN of the queue.
    """

    def __init__(self, hook: SageMakerHook, log: Logger, base: str, batch_hook: AwsBaseHook[Any], queue: str) -> None:
        super().__init__(hook, log, base)
        self.batch_hook, self.queue = batch_hook, queue

    def build_next_name(self, attempts: Sequence[Mapping[str, Any]]) -> str:
        """Return the name of the next service job. Its number is above the numbers of all attempts."""
        numbers = [int(self.get_attempt_name(job).rpartition("-")[2]) for job in attempts]
        return self.build_name(1 + max(numbers, default=0))

    def get_attempt_name(self, job: Mapping[str, Any]) -> str:
        """Return the name of a training job's service job, or of the training job if it had no queue."""
        return str(job[SERVICE_JOB]["name"]) if SERVICE_JOB in job else get_job_name(job)

    def list_attempts(self) -> list[dict[str, Any]]:
        """Return the description of every training job that AWS still lists, oldest first.

        A service job that waits has a description, too: see `describe_attempts`.
        """
        jobs = super().list_attempts()
        for service_job in self._list_service_jobs():
            names = list_training_job_names(service_job)
            jobs += describe_attempts(service_job, [job for name in names if (job := self.describe(name))])
        return sorted(jobs, key=lambda job: job["CreationTime"])

    def stop(self, name: str) -> None:
        """Terminate the task's service jobs that have not ended, and stop the training job. Idempotent."""
        names = {name}
        for service_job in self._list_service_jobs():
            if not has_ended(service_job):
                self.log.warning("terminating service job %s", service_job["jobName"])
                self._call_batch("terminate_service_job", jobId=service_job["jobId"], reason=STOP_REASON)
                names |= {get_latest_training_job_name(service_job)} - {""}
        for training_job in names:
            super().stop(training_job)

    def _list_service_jobs(self) -> list[dict[str, Any]]:
        """Return the descriptions of the task's service jobs, oldest first."""
        request, summaries = build_list_request(self.queue, f"{self.base}-*"), list[Mapping[str, Any]]()
        while request:
            page = self._call_batch("list_service_jobs", **request)
            summaries += page["jobSummaryList"]
            request = {**request, "nextToken": page["nextToken"]} if page.get("nextToken") else {}
        name_pattern = re.compile(re.escape(self.base) + r"-\d+")
        ids = [summary["jobId"] for summary in reversed(summaries) if name_pattern.fullmatch(summary["jobName"])]
        return [dict(self._call_batch("describe_service_job", jobId=job_id)) for job_id in ids]

    def _call_batch(self, operation: str, **request: Any) -> Any:
        call = getattr(self.batch_hook.conn, operation)
        return call_with_retries(lambda: call(**request), self.log, "AWS Batch")
