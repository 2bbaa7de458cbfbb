"""A tuning job: starts its trials, stops poor trials early, and ends."""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from drydock.errors import FAILURE_REASON_MAX_CHARS, truncate
from drydock.jobs.record import ParentTuning, get_now
from drydock.jobs.states import Status
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner, Resources
from drydock.tuning import completion, decisions
from drydock.tuning.plan import TuningPlan
from drydock.tuning.records import Ending, StopCause, TuningRecord
from drydock.tuning.trial import Trial

log = logging.getLogger(__name__)


class TrainingJobs(Protocol):
    """Creates, finds and stops the training jobs of trials."""

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""

    def start(self, owner: Owner, request: dict[str, Any], tuning: ParentTuning) -> None:
        """Create a training job and add it to the queue."""

    def stop(self, job: TrainingJob) -> None:
        """Stop a training job. A job that has ended is not changed."""


class TuningJob:
    """One tuning job. One thread calls `advance`; the threads of the API may call the other methods at the same time.

    Args:
        owner: The account and region of the tuning job.
        record: The tuning job's record.
        resources: Storage of the record.
        training_jobs: Runs the trials.
        now: Returns the current time.
    """

    def __init__(
        self,
        owner: Owner,
        record: TuningRecord,
        resources: Resources,
        training_jobs: TrainingJobs,
        now: Callable[[], datetime] = get_now,
    ) -> None:
        self.owner, self.record = owner, record
        self.plan = TuningPlan(record.request)
        self._resources, self._training_jobs, self._now = resources, training_jobs, now
        self._lock = threading.RLock()
        self._is_discarded = False
        # The training jobs that were found already: with hundreds of trials, each check of all trials must be short.
        self._jobs: dict[str, TrainingJob] = {}
        # How many values of a running trial's objective were checked, by the training job's name.
        self._checked_steps: dict[str, int] | None = None

    @property
    def name(self) -> str:
        """HyperParameterTuningJobName."""
        return self.record.name

    @property
    def status(self) -> Status:
        """HyperParameterTuningJobStatus."""
        return self.record.status

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags, for moto's tagging."""
        return self.record.tags

    @property
    def created_at(self) -> datetime:
        """CreationTime."""
        return self.record.created_at

    @property
    def modified_at(self) -> datetime:
        """LastModifiedTime."""
        return self.record.modified_at

    def set_tags(self, tags: list[dict[str, str]]) -> None:
        """Replace the tags, and store the record."""
        with self._lock:
            self.record.tags = tags
            self.save()

    def request_stop(self) -> Status:
        """Stop the trials soon, and start no more. Return the status before this call.

        A job that has ended or is already Stopping is not changed.
        """
        with self._lock:
            status_before = self.status
            if status_before is Status.IN_PROGRESS:
                self.record.status, self.record.ending = Status.STOPPING, Ending(Status.STOPPED)
                self._save_change()
            return status_before

    def discard(self) -> None:
        """Start no more trials, and store no more changes, because the tuning job was deleted."""
        with self._lock:
            self._is_discarded = True

    def save(self) -> None:
        """Write the record to the store, replacing what was there.

        Raises:
            sqlite3.Error: The disk is full or not writable. A retry can help.
        """
        with self._lock:
            if not self._is_discarded:
                self._resources.write(self.owner, self.name, self.record.dump())

    def list_trials(self) -> list[Trial]:
        """Return the trials, in the order of their creation, with their training jobs."""
        return [Trial(record, self._find_job(record.name)) for record in list(self.record.trials)]

    def advance(self) -> None:
        """Do what has to be done now: stop trials, start trials, or end the tuning job.

        Raises:
            sqlite3.Error: The disk is full or not writable. Call the method again later.
        """
        if self.status.is_final or self._is_discarded:
            return
        self._start_stored_trials()
        trials = self.list_trials()
        if self._checked_steps is None:  # after a restart, the values so far count as checked
            self._checked_steps = {trial.record.name: len(trial.series) for trial in trials}
        if self.record.ending is None:
            self._stop_poor_trials(trials)
            ending = completion.find_ending(trials, self.plan, self.measure_running_s())
            if ending is not None:
                self._set_ending(ending)
            else:
                self._add_trials(trials)
        if self.record.ending is not None:
            self._stop_running_trials(trials)
        self._end_if_done()

    def fail(self, reason: str) -> None:
        """End the tuning job as Failed, once its training jobs are stopped. An ending that was decided before stays."""
        self._set_ending(Ending(Status.FAILED, truncate(reason, FAILURE_REASON_MAX_CHARS)))

    def measure_running_s(self) -> float:
        """Return the seconds from the creation of the tuning job to its end, or until now."""
        return ((self.record.ended_at or self._now()) - self.created_at).total_seconds()

    def _find_job(self, name: str) -> TrainingJob | None:
        if name not in self._jobs and (job := self._training_jobs.find(self.owner, name)) is not None:
            self._jobs[name] = job
        return self._jobs.get(name)

    def _start_stored_trials(self) -> None:
        """Create the training jobs of stored trials that have none, or remove these trials if the tuning job ends.

        A trial is stored before its training job is created. If the server is killed in between, its training job is
        created here after a restart, once.
        """
        for trial in self.list_trials():
            if trial.job is None and not self._is_discarded:
                if self.record.ending is not None:
                    with self._lock:  # its training job never existed: nothing has to be stopped
                        self.record.trials.remove(trial.record)
                        self.save()
                    continue
                request = self.plan.build_trial_request(trial.record.name, trial.record.values, self.tags)
                tuning = ParentTuning(self.record.arn, self.plan.objective.metric)
                self._training_jobs.start(self.owner, request, tuning)

    def _add_trials(self, trials: Sequence[Trial]) -> None:
        running_count = sum(not trial.has_ended for trial in trials)
        while running_count < self.plan.max_parallel_trials and decisions.has_next(self.plan, trials):
            record = decisions.choose_next(self.record, self.plan, trials)
            with self._lock:
                if self.record.ending is not None or self._is_discarded:
                    return
                self.record.trials.append(record)
                try:
                    self._save_change()
                except BaseException:  # a trial that is not stored must not start
                    self.record.trials.remove(record)
                    raise
            self._start_stored_trials()
            trials, running_count = self.list_trials(), running_count + 1

    def _stop_poor_trials(self, trials: Sequence[Trial]) -> None:
        """Stop the running trials that early stopping or Hyperband rejects."""
        assert self._checked_steps is not None, "advance has set it"
        for index, trial in enumerate(trials):
            first_step = self._checked_steps.get(trial.record.name, 0) + 1
            step, cause = len(trial.series), trial.record.stop_cause
            if trial.has_ended or (cause is None and step < first_step):
                continue
            self._checked_steps[trial.record.name] = step
            # A cause may be stored already: the server was killed before it stopped the training job.
            cause = cause or decisions.find_stop_cause(self.record, self.plan, trials, index, first_step)
            if cause is not None:
                self._stop_trial(trial, cause)

    def _stop_running_trials(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.job is not None and not trial.has_ended:
                self._stop_trial(trial, StopCause.TUNING_ENDED)

    def _stop_trial(self, trial: Trial, cause: StopCause) -> None:
        assert trial.job is not None, f"{trial.record.name} does not exist"
        if trial.job.stop_event.is_set():
            return
        name, count = trial.job.name, len(trial.series)
        log.info("tuning job %s: stopping %s (%s) after %d values of the objective", self.name, name, cause, count)
        with self._lock:  # stored first: after a kill, the server must know why the job is Stopped
            trial.record.stop_cause = trial.record.stop_cause or cause
            self.save()
        self._training_jobs.stop(trial.job)

    def _set_ending(self, ending: Ending) -> None:
        with self._lock:
            if self.record.ending is None:
                self.record.ending = ending
                self._save_change()

    def _end_if_done(self) -> None:
        """End the tuning job, if no training job runs and no more will be started."""
        trials = self.list_trials()
        if not all(trial.has_ended for trial in trials):
            return
        with self._lock:
            if self.record.ending is None and decisions.has_next(self.plan, trials):
                return
            status_before = self.status
            ending = completion.choose_final_ending(trials, self.record.ending)
            self.record.status, self.record.reason = ending.status, ending.reason
            self.record.ended_at = self._now()
            try:
                self._save_change()
            except BaseException:  # the next call ends the job
                self.record.status, self.record.reason, self.record.ended_at = status_before, None, None
                raise
        log.info("tuning job %s: %s after %d training jobs", self.name, self.status, len(trials))

    def _save_change(self) -> None:
        self.record.modified_at = self._now()
        self.save()
