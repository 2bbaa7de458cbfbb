"""Decide what a try of an Airflow task does next, from the jobs that the task has started so far.

An attempt is one job of the task. One try of the task may start several attempts. Nothing about attempts is stored:
they are the jobs in SageMaker whose names belong to the task.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from leeway.hooks.sagemaker.costs import Costs, read_job_usage
from leeway.hooks.sagemaker.description import get_job_name, get_job_status, is_live
from leeway.hooks.sagemaker.job_spans import record_job
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger

Job = Mapping[str, Any]
"""SageMaker's description of a job."""


class Attempts(ABC):
    """Start the job of a task, wait for a job that still runs, or return the result of a completed job.

    Args:
        jobs: finds and stops the task's jobs.
        costs: checks the budgets, and writes to the ledger.
        wait_template: a wait for a job of the task, without the job's name and limits.
        log: log of the task.
    """

    def __init__(self, jobs: NamedJobs, costs: Costs, wait_template: JobWait, log: Logger) -> None:
        self.jobs, self.costs, self.wait_template, self.log = jobs, costs, wait_template, log

    @property
    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """The inputs that determine the job's output.

        After a wait, the same try passes them to `AwsTask.prepare_operation`, so that they are not uploaded again.
        """

    def resume(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """Find out what this try does next: start a job, wait for it, or return a completed job's result. Idempotent.

        If a job with other inputs still runs, because the task was changed and cleared, that job is stopped. The next
        job starts after the end of that job.

        Args:
            event: how the wait of this try ended; None at the beginning of the try.

        Returns:
            The wait for the job, or the task's result.

        Raises:
            AirflowFailException: the job cannot succeed, or a budget does not allow it. A retry cannot help.
            AirflowException: the job was stopped, or SageMaker failed. A retry starts or resumes the work.
        """
        attempts = self.jobs.list_attempts()
        completed_jobs = [job for job in attempts if get_job_status(job) == "Completed" and self._has_same_inputs(job)]
        self._record_end(event, attempts, completed_jobs)
        if event:
            self._check_end(event, attempts)
        if completed_jobs and (event or self._has_output(completed_jobs[-1])):
            return self._build_result(completed_jobs[-1], attempts)
        if attempts and is_live(attempts[-1]):
            return self._attach(attempts)
        wait = self._prepare_next(attempts)
        # The name is set before the job exists: if the task is killed while the job starts, the job must be stopped.
        self.jobs.live_job_name = wait.job_name
        return wait

    def _record_end(self, event: WaitEvent | None, attempts: Sequence[Job], completed_jobs: Sequence[Job]) -> None:
        """Record the trace span of the job that this try waited for or, without a wait, of the job that it collects."""
        waited_jobs = [job for job in attempts if event and get_job_name(job) == event["job_name"]]
        for job in waited_jobs if event else completed_jobs[-1:]:
            if not is_live(job):
                record_job(job, self.log, self.jobs.get_attempt_name(job))

    def _check_end(self, event: WaitEvent, attempts: Sequence[Job]) -> None:
        """Raise the error of the job that this try waited for, unless it succeeded or this try starts another job."""
        job = next((job for job in attempts if get_job_name(job) == event["job_name"]), None)
        if job is None:
            raise self._make_error_of_missing_job(event)
        if not self._has_same_inputs(job) or get_job_status(job) == "Completed":
            return
        error = self._make_error(job, event)
        if error is None:
            return
        if not is_live(job):
            self._charge_despite_failure(attempts)
        raise error

    def _make_error_of_missing_job(self, event: WaitEvent) -> AirflowException:
        name = f"{self.jobs.kind} job {event['job_name']}"
        if event["cause"] == "ended":
            return AirflowException(f"{name} does not exist any more.")
        error_class = AirflowFailException if event["cause"] == "refused" else AirflowException
        return error_class(f"{name} was not started: {event['message']}")

    def _attach(self, attempts: Sequence[Job]) -> JobWait:
        """Return the wait for the last attempt, which still runs. Stop this job if its inputs are not the task's."""
        job = attempts[-1]
        self.jobs.live_job_name = get_job_name(job)
        self.log.info(
            "%s job %s: %s on %s", self.jobs.kind, get_job_name(job), get_job_status(job), self._get_machine_label(job)
        )
        if not self._has_same_inputs(job) and get_job_status(job) == "InProgress":
            self.log.info("this job has other inputs than the task: stopping it; the next job starts after its end")
            self.jobs.stop(get_job_name(job))
        return self._build_wait_for_existing(attempts, dt.datetime.now(dt.UTC).isoformat())

    def _has_output(self, job: Job) -> bool:
        """Return whether the output of a completed job still exists; if not, a new try starts another job.

        By default, the result is True without a check. A subclass can check the output.
        """
        return True

    def _charge_despite_failure(self, attempts: Sequence[Job]) -> None:
        """Write the costs of the ended jobs to the ledger. An error is only logged, since the job's error is raised."""
        try:
            self._charge(attempts)
        except AirflowException as error:
            self.log.warning("the jobs' costs are not in the ledger: %s", error)

    def _charge(self, attempts: Sequence[Job]) -> dict[str, Any]:
        """Write the costs of the ended jobs to the ledger; return the `ChargeResult`."""
        records = [
            {**self._build_cost_record(job), "usage": read_job_usage(self.wait_template.connection, job, self.log)}
            for job in attempts
            if not is_live(job)
        ]
        return self.costs.charge(records)

    @abstractmethod
    def _has_same_inputs(self, job: Job) -> bool:
        """Return whether a job has the inputs that the task has now."""

    @abstractmethod
    def _make_error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        """Return the error for a job that did not complete; None if the same try starts the next job."""

    @abstractmethod
    def _build_cost_record(self, job: Job) -> dict[str, Any]:
        """Return the record of an ended job for the step `charge`."""

    @abstractmethod
    def _get_machine_label(self, job: Job) -> str:
        """Return a readable name of the machines that a job runs on."""

    @abstractmethod
    def _build_wait_for_existing(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        """Return the wait for the last attempt, which another try or process started.

        Args:
            attempts: all attempts, oldest first.
            attached_at: when this try found the job, ISO 8601.
        """

    @abstractmethod
    def _prepare_next(self, attempts: Sequence[Job]) -> JobWait:
        """Return the wait for a new job, with the request that starts the job."""

    @abstractmethod
    def _build_result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        """Return the task's result for a job that completed."""
