"""Create, find and stop the training jobs of tuning jobs and AWS Batch, by the code that answers clients' requests."""

from typing import Any, cast

from moto.sagemaker.models import sagemaker_backends

from drydock.execution.queue import JobQueue
from drydock.jobs.record import ParentTuning
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner


class BackendTrainingJobs:
    """Creates, finds and stops training jobs, through the SageMaker backends that `api.sagemaker.install` gives moto.

    Args:
        queue: Runs the training jobs.
    """

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""
        job = self._get_backend(owner).find_job(TrainingJob, name)
        return cast("TrainingJob | None", job)

    def start(self, owner: Owner, request: dict[str, Any], tuning: ParentTuning | None) -> None:
        """Create a training job and add it to the queue. Raises the errors of the request CreateTrainingJob.

        Args:
            owner: The account and region of the job.
            request: A valid request to CreateTrainingJob.
            tuning: The tuning job that the training job belongs to; None if no tuning job has started it.
        """
        self._get_backend(owner).create_training(request, tuning)

    def stop(self, job: TrainingJob) -> None:
        """Stop a training job. A job that has ended is not changed."""
        self._queue.stop(job)

    def _get_backend(self, owner: Owner) -> Any:
        # After a reset, moto creates a new backend, so the backend is not stored here.
        return sagemaker_backends[owner.account_id][owner.region]
