"""One task's job over all its tries: what is there decides what is next, so it may be asked again at any time.

Nothing is remembered here, nor in Airflow: the attempts are what SageMaker describes under the task's names.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException

from leeway.hooks.sagemaker.costs import Costs
from leeway.hooks.sagemaker.description import is_live, name_of, status_of
from leeway.hooks.sagemaker.named_jobs import NamedJobs
from leeway.hooks.sagemaker.wait import JobWait, WaitEvent
from leeway.hooks.step.hook import Logger

Job = Mapping[str, Any]


class Attempts(ABC):
    """Goes on with a task's job, from wherever it is.

    Args:
        jobs: the task's jobs.
        costs: the budgets and the ledger.
        blank: how a job of the task is watched, without its name and bounds.
        log: where decisions are told.
    """

    def __init__(self, jobs: NamedJobs, costs: Costs, blank: JobWait, log: Logger) -> None:
        self.jobs, self.costs, self.blank, self.log = jobs, costs, blank, log

    @property
    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What decides what comes out, for a later call in the same try."""

    def go_on(self, event: WaitEvent | None) -> JobWait | dict[str, Any]:
        """The job to wait for, or the result of the one that completed. Idempotent.

        A job from other inputs that still runs is nobody's any more (the task was cleared and changed): it is stopped,
        and has ended before the next one starts.

        Args:
            event: why the wait is over, of the job that this try waited for; None where the try begins.

        Raises:
            AirflowFailException: the job cannot end well, or must not cost more. A retry cannot help.
            AirflowException: the job was stopped or failed at SageMaker's side. A retry goes on.
        """
        while True:
            attempts = self.jobs.attempts()
            if event:
                self._judge(event, attempts)
            done = [job for job in attempts if status_of(job) == "Completed" and self._is_ours(job)]
            if done and (event or self._is_kept(done[-1])):
                return self._result(done[-1], attempts)
            if attempts and is_live(attempts[-1]):
                return self._attached(attempts)
            if watch := self._started(attempts):
                return watch
            event = None  # another process was first: what it started is waited for

    def _judge(self, event: WaitEvent, attempts: Sequence[Job]) -> None:
        """Raises what the end of the job means that this try waited for."""
        job = next((one for one in attempts if name_of(one) == event["job_name"]), None)
        if job is None:
            raise AirflowException(f"{self.jobs.kind} job {event['job_name']} is gone: the endpoint lost it.")
        if self._is_ours(job) and status_of(job) != "Completed":
            self._raise_for(job, event, attempts)

    def _attached(self, attempts: Sequence[Job]) -> JobWait:
        """The wait for a job that is there already."""
        job = attempts[-1]
        self.jobs.live = name_of(job)
        self.log.info("%s job %s: %s on %s", self.jobs.kind, name_of(job), status_of(job), self._where(job))
        if not self._is_ours(job) and status_of(job) == "InProgress":
            self.log.info("it has other inputs: the next one follows when it has ended")
            self.jobs.stop(name_of(job))
        return self._watch_there(attempts, dt.datetime.now(dt.UTC).isoformat())

    @abstractmethod
    def _is_ours(self, job: Job) -> bool:
        """Whether a job had the inputs that are asked for now."""

    def _is_kept(self, job: Job) -> bool:
        """Whether what a completed job made is there to be collected; where it is not, a new try has it made again."""
        return True

    def _raise_for(self, job: Job, event: WaitEvent, attempts: Sequence[Job]) -> None:
        """Charged before that, for it cost too."""
        error = self._error(job, event)
        if error is None:
            return
        if not is_live(job):
            self._charge_all_the_same(attempts)
        raise error

    def _charge_all_the_same(self, attempts: Sequence[Job]) -> None:
        """What ended is in the ledger; where that fails, the job's own error is not lost for it."""
        try:
            self._charged(attempts)
        except AirflowException as error:
            self.log.warning("what the jobs cost is not in the ledger: %s", error)

    def _charged(self, attempts: Sequence[Job]) -> dict[str, Any]:
        return self.costs.charged([self._record(job) for job in attempts if not is_live(job)])

    @abstractmethod
    def _error(self, job: Job, event: WaitEvent) -> AirflowException | None:
        """What an end without success means; None where the same try goes on with the next job."""

    @abstractmethod
    def _record(self, job: Job) -> dict[str, Any]:
        """An ended job as the step `charge` takes it."""

    @abstractmethod
    def _where(self, job: Job) -> str:
        """What a job runs on, for people."""

    @abstractmethod
    def _watch_there(self, attempts: Sequence[Job], attached_at: str) -> JobWait:
        """How the last attempt, which lives, is watched."""

    @abstractmethod
    def _started(self, attempts: Sequence[Job]) -> JobWait | None:
        """The wait for a new job; None where another process started one meanwhile."""

    @abstractmethod
    def _result(self, job: Job, attempts: Sequence[Job]) -> dict[str, Any]:
        """What the task returns for a job that completed."""
