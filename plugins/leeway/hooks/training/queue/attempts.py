"""Submit the training job of a task to a queue, find it again, or collect the result of a completed job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.attempts import Job
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.training.attempts import TrainingAttempts
from leeway.hooks.training.queue.job_queue import QueueTarget
from leeway.hooks.training.queue.service_job import SERVICE_JOB, compute_queue_s
from leeway.hooks.training.queue.wait import QueuedJobWait


class QueuedAttempts(TrainingAttempts):
    """Submit, find or collect the training job of a task with a queue.

    Args:
        target: where the task's jobs are submitted.
        max_queue_s: longest wait in the queue, seconds.
        arguments: arguments of `TrainingAttempts`.
    """

    def __init__(self, target: QueueTarget, max_queue_s: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.target, self.max_queue_s = target, max_queue_s

    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        self.target.queue.check_is_enabled()
        wait = super()._prepare_next(attempts)
        return replace(wait, request=self.target.build_submission(wait.job_name, wait.request or {}))

    def _build_wait(
        self, job: Job, earlier_attempts: Sequence[Job], prices: Mapping[str, float], attached_at: str | None
    ) -> JobWait:
        wait = super()._build_wait(job, earlier_attempts, prices, attached_at)
        if "TrainingJobStatus" in job and SERVICE_JOB not in job:
            return wait  # a job that an earlier try started without a queue
        return QueuedJobWait(
            **{
                **vars(wait),
                "job_name": self.jobs.get_attempt_name(job),
                "max_duration_s": wait.max_duration_s + self.max_queue_s,
                "queue": self.target.queue.name,
                "max_queue_s": self.max_queue_s,
            }
        )

    def _make_error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        if event["cause"] == "queue":
            return AirflowFailException(
                f"training job {self.jobs.get_attempt_name(job)} was not started: {event['message']}. Give a longer "
                "max_queue_s, a higher priority, or another queue."
            )
        if event["cause"] == "ended" and SERVICE_JOB in job and job[SERVICE_JOB]["is_live"]:
            self.log.warning("training job %s was preempted; its service job waits again", event["job_name"])
            return None
        return super()._make_error(job, event)

    def _charge(self, attempts: Sequence[Job]) -> dict[str, Any]:
        # A service job that got no training job costs nothing.
        return super()._charge([job for job in attempts if "TrainingJobArn" in job])

    def _build_cost_record(self, job: Job) -> dict[str, Any]:
        queue_s = compute_queue_s(job) if SERVICE_JOB in job else None
        return {**super()._build_cost_record(job), "queue_s": queue_s}

    def _build_result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        started_attempts = [attempt for attempt in attempts if "TrainingJobArn" in attempt]
        service_job = job[SERVICE_JOB]["id"] if SERVICE_JOB in job else ""
        return {**super()._build_result(job, started_attempts), "service_job": service_job}
