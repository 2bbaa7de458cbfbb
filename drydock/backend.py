"""moto's SageMaker with training jobs that run.

The door into moto is one assignment (`install`): moto makes its backends from a class that it keeps in a
registry, and asks the backend for its URL handlers. Nothing of moto is patched; all the rest stays as it is.
"""

import functools
import json
import threading
from collections import Counter
from typing import Any, cast

from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker import urls
from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException
from moto.sagemaker.models import FakeTrainingJob, SageMakerModelBackend, sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from drydock import listing, rules
from drydock.job import TrainingJob
from drydock.states import Status
from drydock.validation import validate
from drydock.yard import Yard

OPERATIONS = ("CreateTrainingJob", "DescribeTrainingJob", "StopTrainingJob", "ListTrainingJobs")


class DrydockBackend(SageMakerModelBackend):
    """The SageMaker of one account and region."""

    def __init__(self, yard: Yard, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.yard = yard
        self.jobs: dict[str, TrainingJob] = {}
        # moto's tagging and Search look the jobs up under its own name.
        self.training_jobs = cast("dict[str, FakeTrainingJob]", self.jobs)
        self._creating = threading.Lock()

    def reset(self) -> None:
        """Nothing is known of any job (moto's /moto-api/reset); what ran has been told to stop."""
        for job in list(self.jobs.values()):
            self.yard.stop(job)
        yard, region, account = self.yard, self.region_name, self.account_id
        self.__dict__.clear()
        DrydockBackend.__init__(self, yard, region, account)

    @property
    def url_bases(self) -> list[str]:
        """The hosts that moto serves SageMaker under."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The one path of SageMaker's protocol, answered by drydock."""
        return {"/$": DrydockResponse.dispatch}

    def create(self, request: dict[str, Any]) -> TrainingJob:
        """The job exists and runs or waits.

        Raises:
            AWSValidationException: The request asks for what drydock does not do.
            ResourceInUseException: There is a job of this name already.
        """
        rules.check(request)
        name = request["TrainingJobName"]
        arn = FakeTrainingJob.arn_formatter(name, self.account_id, self.region_name)
        with self._creating:
            if name in self.jobs:
                raise ResourceInUseException(
                    "Training job names must be unique within an AWS account and region, and a training job "
                    f"with this name already exists ({arn})"
                )
            job = self.jobs[name] = TrainingJob(request, self.account_id, self.region_name, arn)
        self.yard.submit(job)
        return job

    def find(self, name: str) -> TrainingJob:
        """Return the job.

        Raises:
            AWSValidationException: There is none (SageMaker gives that, and no ResourceNotFound).
        """
        job = self.jobs.get(name)
        if job is None:
            raise AWSValidationException("Requested resource not found.")
        return job

    def stop(self, name: str) -> None:
        """The job is being stopped.

        Raises:
            AWSValidationException: There is none, or it has ended.
        """
        before = self.yard.stop(self.find(name))
        if before.ended:
            raise AWSValidationException(f"The request was rejected because the training job is in status {before}.")


class DrydockResponse(SageMakerResponse):
    """The HTTP face: drydock's four operations, and moto's others."""

    # Bytes that are no text are then a refused request; moto would decode them first, and fail.
    use_raw_body = True

    def parse_parameters(self, request: Any) -> None:
        """The request is parsed; drydock's operations keep the raw JSON, to validate it."""
        if self._get_action() not in OPERATIONS:
            super().parse_parameters(request)

    def create_training_job(self) -> ActionResult:
        """Answer CreateTrainingJob."""
        job = self._backend.create(self._request("CreateTrainingJob"))
        return ActionResult({"TrainingJobArn": job.arn})

    def describe_training_job(self) -> ActionResult:
        """Answer DescribeTrainingJob."""
        name = self._request("DescribeTrainingJob")["TrainingJobName"]
        return ActionResult(self._backend.find(name).describe())

    def stop_training_job(self) -> ActionResult:
        """Answer StopTrainingJob, which moto does not have."""
        self._backend.stop(self._request("StopTrainingJob")["TrainingJobName"])
        return EmptyResult()

    def list_training_jobs(self) -> ActionResult:
        """Answer ListTrainingJobs."""
        request = self._request("ListTrainingJobs")
        return ActionResult(listing.page(self._backend.jobs.values(), request))

    @property
    def _backend(self) -> DrydockBackend:
        return cast(DrydockBackend, self.sagemaker_backend)

    def _request(self, operation: str) -> dict[str, Any]:
        try:
            content = json.loads(self.body)
        except ValueError as error:
            raise AWSValidationException(f"The request body is not JSON: {error}") from error
        return validate(operation, content)


def install(yard: Yard) -> None:
    """From now on moto's SageMaker, in this process, runs training jobs in yard."""
    sagemaker_backends.clear()
    sagemaker_backends.backend = cast("type[SageMakerModelBackend]", functools.partial(DrydockBackend, yard))


def jobs_by_status() -> dict[str, int]:
    """Return how many jobs of all accounts and regions are in each TrainingJobStatus."""
    found: Counter[str] = Counter({str(status): 0 for status in Status})
    for _, _, backend in list(sagemaker_backends.iter_backends()):
        found.update(str(job.training_job_status) for job in list(cast(DrydockBackend, backend).jobs.values()))
    return dict(found)
