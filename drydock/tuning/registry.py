"""The tuning jobs of all accounts and regions, and the thread that starts and stops their trials."""

import logging
import sqlite3
import threading
from collections import defaultdict

from drydock.resources import Owner, Resources
from drydock.store import Store
from drydock.tuning.job import TrainingJobs, TuningJob
from drydock.tuning.records import TuningRecord

log = logging.getLogger(__name__)

CHECK_S = 0.05
"""Seconds between two checks of the trials of the tuning jobs that run."""


class TuningJobs:
    """The tuning jobs of one server. Safe for several threads.

    Args:
        store: The server's storage.
        training_jobs: Runs the trials.
    """

    def __init__(self, store: Store, training_jobs: TrainingJobs) -> None:
        self._resources, self._training_jobs = Resources(store, "tuning-job"), training_jobs
        self._lock = threading.Lock()
        self._jobs: defaultdict[Owner, dict[str, TuningJob]] = defaultdict(dict)
        self._stop_event, self._change_event = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="tuning", daemon=True)
        for owner, text in self._resources.iterate():
            self._add(owner, TuningRecord.load(text))

    def start(self) -> None:
        """Begin to start and stop the trials of tuning jobs, including jobs that were stored before a restart."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. The server continues the tuning jobs after its next start."""
        self._stop_event.set()
        self._change_event.set()
        if self._thread.is_alive():
            self._thread.join()

    def get_jobs(self, owner: Owner) -> dict[str, TuningJob]:
        """Return the tuning jobs of an owner by their names. `create` and `delete` change the returned dictionary."""
        return self._jobs[owner]

    def create(self, owner: Owner, record: TuningRecord) -> bool:
        """Store and start a new tuning job. Return False if the name is in use, ignoring case."""
        with self._lock:
            if record.name.lower() in map(str.lower, self._jobs[owner]):
                return False
            self._resources.write(owner, record.name, record.dump())
            self._add(owner, record)
        self._change_event.set()
        return True

    def delete(self, owner: Owner, name: str) -> None:
        """Delete a tuning job, but not its training jobs. Idempotent."""
        with self._lock:
            job = self._jobs[owner].pop(name, None)
            if job is not None:
                job.discard()
                self._resources.delete(owner, name)

    def delete_all(self, owner: Owner) -> None:
        """Delete all tuning jobs of an owner."""
        for name in list(self._jobs[owner]):
            self.delete(owner, name)

    def _add(self, owner: Owner, record: TuningRecord) -> None:
        self._jobs[owner][record.name] = TuningJob(owner, record, self._resources, self._training_jobs)

    def _run(self) -> None:
        while not self._stop_event.is_set():
            self._change_event.clear()
            if self._stop_event.is_set():  # otherwise, a `close` just before `clear` would be missed
                return
            jobs = [job for jobs in list(self._jobs.values()) for job in list(jobs.values())]
            running_jobs = [job for job in jobs if not job.status.is_final]
            for job in running_jobs:
                if not self._stop_event.is_set():
                    _advance(job)
            self._change_event.wait(CHECK_S if running_jobs else None)


def _advance(job: TuningJob) -> None:
    try:
        job.advance()
    except sqlite3.Error as error:  # the disk is full: the next check tries again
        log.error("tuning job %s: cannot be stored: %s", job.name, error)
    except Exception as error:  # clients would wait forever for a job that does not end
        log.exception("tuning job %s: internal error", job.name)
        try:
            job.fail(f"InternalServerError: {type(error).__name__}: {error}")
        except sqlite3.Error as storage_error:
            log.error("tuning job %s: cannot be stored: %s", job.name, storage_error)
