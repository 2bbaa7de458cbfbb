"""Create and stop the training jobs of tuning jobs, in the same way as the requests of clients do."""

from typing import Any, cast

from moto.sagemaker.models import sagemaker_backends

from drydock.execution.queue import JobQueue
from drydock.jobs.record import TrialOf
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner


class BackendTrainingJobs:
    """Creates, finds and stops training jobs through moto's SageMaker backends, which `api.sagemaker.install` replaces.

    Args:
        queue: Runs the jobs.
    """

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""
        job = self._get_backend(owner).find_job(TrainingJob, name)
        return cast("TrainingJob | None", job)

    def start(self, owner: Owner, request: dict[str, Any], tuning: TrialOf | None) -> None:
        """Create a training job and add it to the queue. Raises the same errors as CreateTrainingJob."""
        self._get_backend(owner).create_training(request, tuning)

    def stop(self, job: TrainingJob) -> None:
        """Stop a training job. A job that has ended is not changed."""
        self._queue.stop(job)

    def _get_backend(self, owner: Owner) -> Any:
        # Looked up each time, since a reset of moto creates a new backend.
        return sagemaker_backends[owner.account_id][owner.region]
