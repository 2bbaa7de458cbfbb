"""Create and stop the training jobs of AWS Batch's service jobs, with the same code as for clients' requests.

A service job is a job of a queue of AWS Batch that SageMaker runs as a training job.
"""

from typing import Any

from moto.sagemaker.models import FakeTrainingJob

from drydock.api.tuning.training_jobs import BackendTrainingJobs
from drydock.api.validation import validate_request
from drydock.execution.queue import JobQueue
from drydock.jobs.training.job import TrainingJob
from drydock.resources import Owner


class ServiceTrainingJobs:
    """Creates, finds and stops the training jobs of AWS Batch's service jobs.

    Args:
        queue: Runs the training jobs on this machine.
    """

    def __init__(self, queue: JobQueue) -> None:
        self._training_jobs = BackendTrainingJobs(queue)

    def find(self, owner: Owner, name: str) -> TrainingJob | None:
        """Return a training job; None if it does not exist."""
        return self._training_jobs.find(owner, name)

    def start(self, owner: Owner, request: dict[str, Any]) -> None:
        """Create a training job and add it to the machine's queue. Raises the errors of CreateTrainingJob."""
        self._training_jobs.start(owner, validate_request("CreateTrainingJob", request), tuning=None)

    def stop(self, job: TrainingJob) -> None:
        """Stop a training job. A job that has ended is not changed."""
        self._training_jobs.stop(job)

    def build_arn(self, owner: Owner, name: str) -> str:
        """Return the ARN of a training job."""
        return str(FakeTrainingJob.arn_formatter(name, owner.account_id, owner.region))
