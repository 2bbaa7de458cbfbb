"""Answer the requests to SageMaker that drydock implements; moto answers the others, or they are refused."""

from http import HTTPStatus
from typing import Any, ClassVar, cast

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker.exceptions import AWSValidationException, ResourceNotFound

from drydock.api import listing
from drydock.api.absent_structures import remove_absent_structures
from drydock.api.backend import DrydockBackend
from drydock.api.endpoint_responses import ENDPOINT_OPERATIONS
from drydock.api.feature_store.responses import FEATURE_GROUP_OPERATIONS
from drydock.api.models.responses import MODEL_OPERATIONS
from drydock.api.notebooks.responses import NOTEBOOK_OPERATIONS, NotebookResponse
from drydock.api.operations import check_operation
from drydock.api.tuning.responses import TUNING_OPERATIONS
from drydock.jobs.job import Job
from drydock.jobs.kinds import KINDS
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.transform.job import TransformJob

OPERATIONS = (
    *(f"{verb}{kind.api_name}Job" for kind in KINDS for verb in ("Create", "Describe", "Stop")),
    *(f"List{kind.api_name}Jobs" for kind in KINDS),
    *MODEL_OPERATIONS,
    *ENDPOINT_OPERATIONS,
    *FEATURE_GROUP_OPERATIONS,
    *TUNING_OPERATIONS,
    *NOTEBOOK_OPERATIONS,
)
"""The operations that drydock answers itself."""


class DrydockResponse(NotebookResponse):
    """Answers the requests for `OPERATIONS`. Others are answered by moto, or refused."""

    gives_invented_answers: ClassVar[bool] = False
    """Whether moto may also answer the operations for which it only invents a result."""

    # With the raw body, drydock refuses a body that is not UTF-8. moto would fail while it decodes such a body.
    use_raw_body = True

    def parse_parameters(self, request: Any) -> None:
        """Parse the request, except for drydock's operations, which validate the raw JSON themselves.

        Raises:
            NotImplementedError: moto would invent the answer. A retry cannot help.
        """
        if not self.gives_invented_answers:
            check_operation(self._get_action())
        if self._get_action() not in OPERATIONS:
            super().parse_parameters(request)

    def serialized(self, action_result: ActionResult) -> TYPE_RESPONSE:
        """Return the status, the headers and the body of a response, without moto's empty structures."""
        status, headers, body = super().serialized(action_result)
        operation = self._get_action()
        if status == HTTPStatus.OK and operation not in OPERATIONS:
            body = remove_absent_structures(operation, body)
        return status, headers, body

    def create_training_job(self) -> ActionResult:
        """Answer CreateTrainingJob."""
        job = self._backend.create_training(self.read_request("CreateTrainingJob"))
        return ActionResult({"TrainingJobArn": job.arn})

    def create_processing_job(self) -> ActionResult:
        """Answer CreateProcessingJob."""
        job = self._backend.create_processing(self.read_request("CreateProcessingJob"))
        return ActionResult({"ProcessingJobArn": job.arn})

    def create_transform_job(self) -> ActionResult:
        """Answer CreateTransformJob."""
        job = self._backend.create_transform(self.read_request("CreateTransformJob"))
        return ActionResult({"TransformJobArn": job.arn})

    def describe_training_job(self) -> ActionResult:
        """Answer DescribeTrainingJob."""
        return self._describe(TrainingJob)

    def describe_processing_job(self) -> ActionResult:
        """Answer DescribeProcessingJob."""
        return self._describe(ProcessingJob)

    def describe_transform_job(self) -> ActionResult:
        """Answer DescribeTransformJob."""
        return self._describe(TransformJob)

    def stop_training_job(self) -> ActionResult:
        """Answer StopTrainingJob, which moto does not have."""
        return self._stop(TrainingJob)

    def stop_processing_job(self) -> ActionResult:
        """Answer StopProcessingJob."""
        return self._stop(ProcessingJob)

    def stop_transform_job(self) -> ActionResult:
        """Answer StopTransformJob, which moto does not have."""
        return self._stop(TransformJob)

    def list_training_jobs(self) -> ActionResult:
        """Answer ListTrainingJobs."""
        return self._list(TrainingJob)

    def list_processing_jobs(self) -> ActionResult:
        """Answer ListProcessingJobs."""
        return self._list(ProcessingJob)

    def list_transform_jobs(self) -> ActionResult:
        """Answer ListTransformJobs."""
        return self._list(TransformJob)

    def _describe(self, kind: type[Job]) -> ActionResult:
        return ActionResult(self._find_job(kind, "Describe").describe())

    def _stop(self, kind: type[Job]) -> ActionResult:
        self._backend.stop_job(self._find_job(kind, "Stop"))
        return EmptyResult()

    def _list(self, kind: type[Job]) -> ActionResult:
        request = self.read_request(f"List{kind.api_name}Jobs")
        jobs, member = self._backend.jobs[kind].values(), f"{kind.api_name}JobSummaries"
        # Documented for ListTrainingJobs: with MaxResults, a page is selected first, then StatusEquals filters it.
        return ActionResult(listing.list_page(jobs, request, member, filters_page=kind is TrainingJob))

    def _find_job(self, kind: type[Job], verb: str) -> Job:
        """Return the job that a request names.

        Raises:
            AWSValidationException: The job does not exist, and the request is a Describe.
            ResourceNotFound: The job does not exist, and the request is a Stop.
        """
        name = self.read_request(f"{verb}{kind.api_name}Job")[f"{kind.api_name}JobName"]
        if job := self._backend.find_job(kind, name):
            return job
        # The API's documentation says ResourceNotFound for Describe, too. But SageMaker returns ValidationException,
        # and its clients rely on that.
        is_training = kind is TrainingJob
        message = "Requested resource not found." if is_training else f"Could not find requested job with name: {name}"
        raise ResourceNotFound(message) if verb == "Stop" else AWSValidationException(message)

    @property
    def _backend(self) -> DrydockBackend:
        return cast(DrydockBackend, self.sagemaker_backend)


class InventingResponse(DrydockResponse):
    """Answers as `DrydockResponse` does. Requests that `DrydockResponse` refuses get the answers that moto invents."""

    gives_invented_answers = True
