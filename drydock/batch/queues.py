"""Everything that drydock's AWS Batch stores, for all accounts and regions, with the lock that protects it."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from drydock.batch.errors import refuse
from drydock.batch.jobs import ServiceJob
from drydock.batch.records import Queue
from drydock.batch.tables import Tables
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner
from drydock.store import Store

FRONT_JOBS = 100
"""Number of jobs at the front of a queue whose positions are recorded: as many as GetJobQueueSnapshot shows."""


class TrainingJobs(Protocol):
    """Creates, finds and stops the training jobs of AWS Batch's service jobs."""

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""

    def start(self, owner: Owner, request: dict[str, Any]) -> None:
        """Create a training job and add it to the queue of the machine.

        Raises:
            JsonRESTError, ServiceException: SageMaker refuses the request. A retry cannot help.
        """

    def stop(self, job: TrainingJob) -> None:
        """Stop a training job. A job that has ended is not changed."""

    def build_arn(self, owner: Owner, name: str) -> str:
        """Return the ARN of a training job."""


class BatchQueues:
    """The queues of all accounts and regions, with their jobs. Hold `lock` while you read or change them.

    Args:
        store: The server's storage.
        training_jobs: Creates, finds and stops the training jobs of the service jobs.
        now: Returns the current time, in seconds since 1970.
    """

    def __init__(self, store: Store, training_jobs: TrainingJobs, now: Callable[[], float] = time.time) -> None:
        self.tables, self.training_jobs, self.now = Tables(store), training_jobs, now
        self.lock = threading.RLock()
        self.change_event = threading.Event()
        """Set when the scheduler must check the queues."""
        self.positions: dict[str, dict[str, tuple[int, int]]] = {}
        """The position of each of the first `FRONT_JOBS` waiting jobs of a queue, and when the job got it, in ms since
        1970; by the queue's ARN and the job's id."""

    @property
    def now_ms(self) -> int:
        """The current time, in milliseconds since 1970."""
        return int(self.now() * 1_000)

    def find_queue(self, owner: Owner, name: str) -> Queue:
        """Return a queue by its name or ARN.

        Raises:
            ClientException: It does not exist.
        """
        return self.tables.queues.find(owner, name) or refuse(f"JobQueue {name} not found.")

    def find_job(self, owner: Owner, name: str) -> ServiceJob:
        """Return a job by its id or ARN.

        Raises:
            ClientException: It does not exist.
        """
        job = self.tables.jobs.get(owner, name.rpartition("/")[2])
        if job is None or name not in (job.id, job.arn):
            refuse(f"Service job {name} not found.")
        return job

    def save_job(self, owner: Owner, job: ServiceJob) -> None:
        """Store a job, and let the scheduler check it."""
        self.tables.jobs.save(owner, job)
        self.change_event.set()

    def delete_all(self, owner: Owner) -> None:
        """Delete everything of an owner, except for the training jobs, which are not changed."""
        with self.lock:
            self.tables.delete_all(owner)
