"""moto's SageMaker with training and processing jobs that run.

The door into moto is one assignment (`install`): moto makes its backends from a class that it keeps in a
registry, and asks the backend for its URL handlers. Nothing of moto is patched; all the rest stays as it is.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from moto.core.responses import ActionResult, EmptyResult
from moto.sagemaker import urls
from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException, ResourceNotFound
from moto.sagemaker.models import FakeProcessingJob, FakeTrainingJob, SageMakerModelBackend, sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from drydock import listing, processing_rules, rules
from drydock.binding import bound
from drydock.job import Job
from drydock.processing_job import ProcessingJob
from drydock.record import SCHEMA, Record
from drydock.recovery import Heartbeat
from drydock.states import Status
from drydock.store import Store
from drydock.training_job import TrainingJob
from drydock.validation import validate
from drydock.yard import Yard

OPERATIONS = (
    *(f"{verb}TrainingJob" for verb in ("Create", "Describe", "Stop")),
    *(f"{verb}ProcessingJob" for verb in ("Create", "Describe", "Stop")),
    "ListTrainingJobs",
    "ListProcessingJobs",
)
TRAINING_TAKEN = "Training job names must be unique within an AWS account and region, and a training"
PROCESSING_TAKEN = "Job name must be unique within an AWS account and region, and a"
J = TypeVar("J", bound=Job)


class DrydockBackend(SageMakerModelBackend):
    """The SageMaker of one account and region."""

    def __init__(self, yard: Yard, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.yard, self.store = yard, store
        self.training: dict[str, TrainingJob] = {}
        self.processing: dict[str, ProcessingJob] = {}
        # moto's tagging and Search look the jobs up under its own names.
        self.training_jobs = cast("dict[str, FakeTrainingJob]", self.training)
        self.processing_jobs = cast("dict[str, FakeProcessingJob]", self.processing)
        self._creating = threading.Lock()

    def reset(self) -> None:
        """Nothing is known of any job (moto's /moto-api/reset); what ran has been told to stop."""
        for job in [*self.training.values(), *self.processing.values()]:
            job.forget()
            self.yard.stop(job)
        with self.store.write() as db:
            db.execute("DELETE FROM jobs WHERE account = ? AND region = ?", (self.account_id, self.region_name))
        yard, store, region, account = self.yard, self.store, self.region_name, self.account_id
        self.__dict__.clear()
        DrydockBackend.__init__(self, yard, store, region, account)

    @property
    def url_bases(self) -> list[str]:
        """The hosts that moto serves SageMaker under."""
        return list(urls.url_bases)

    @property
    def url_paths(self) -> dict[str, Any]:
        """The one path of SageMaker's protocol, answered by drydock."""
        return {"/$": DrydockResponse.dispatch}

    def create_training(self, request: Mapping[str, Any]) -> TrainingJob:
        """The job exists and runs or waits.

        Raises:
            AWSValidationException: The request asks for what drydock does not do.
            ResourceInUseException: There is a job of this name already.
        """
        rules.check(request)
        arn = FakeTrainingJob.arn_formatter(request["TrainingJobName"], self.account_id, self.region_name)
        fraction = self.yard.market.policy.billable_fraction
        job = TrainingJob.create(self.store, request, self.account_id, self.region_name, arn, fraction)
        self._add(self.training, job, TRAINING_TAKEN)
        return job

    def create_processing(self, request: Mapping[str, Any]) -> ProcessingJob:
        """As `create_training`, for a processing job."""
        processing_rules.check(request)
        arn = FakeProcessingJob.arn_formatter(request["ProcessingJobName"], self.account_id, self.region_name)
        job = ProcessingJob.create(self.store, request, self.account_id, self.region_name, arn)
        self._add(self.processing, job, PROCESSING_TAKEN)
        return job

    def restore(self, kind: str, record: Record) -> Job:
        """A job of an earlier server is known again."""
        job: Job
        if kind == TrainingJob.kind:
            job = training = TrainingJob(self.store, self.account_id, self.region_name, record)
            self.training[job.name] = training
        else:
            job = processing = ProcessingJob(self.store, self.account_id, self.region_name, record)
            self.processing[job.name] = processing
        return job

    def add_tags(self, arn: str, tags: list[dict[str, str]]) -> list[dict[str, str]]:
        """The resource has the tags, too; of equal keys the new value counts."""
        resource = self._get_resource_from_arn(arn)
        if not isinstance(resource, Job):
            return cast("list[dict[str, str]]", super().add_tags(arn, tags))
        new = {tag["Key"] for tag in tags}
        resource.record.tags = [tag for tag in resource.record.tags if tag["Key"] not in new] + tags
        resource.save()
        return resource.tags

    def delete_tags(self, arn: str, tag_keys: list[str]) -> None:
        """The resource has no such tags."""
        resource = self._get_resource_from_arn(arn)
        if not isinstance(resource, Job):
            super().delete_tags(arn, tag_keys)
            return
        resource.record.tags = [tag for tag in resource.record.tags if tag["Key"] not in tag_keys]
        resource.save()

    def _add(self, jobs: dict[str, J], job: J, taken: str) -> None:
        with self._creating:
            if job.name in jobs:
                raise ResourceInUseException(f"{taken} job with this name already exists ({job.arn})")
            job.save()
            jobs[job.name] = job
        self.yard.submit(job)

    def stop(self, jobs: Mapping[str, J], name: str, missing: Exception) -> None:
        """The job is being stopped.

        Raises:
            Exception: missing, where there is none.
            AWSValidationException: It has ended.
        """
        job = jobs.get(name)
        if job is None:
            raise missing
        before = self.yard.stop(job)
        if before.ended:
            text = f"The request was rejected because the {job.kind} job is in status {before}."
            raise AWSValidationException(text)


class DrydockResponse(SageMakerResponse):
    """The HTTP face: drydock's operations, and moto's others."""

    # Bytes that are no text are then a refused request; moto would decode them first, and fail.
    use_raw_body = True

    def parse_parameters(self, request: Any) -> None:
        """The request is parsed; drydock's operations keep the raw JSON, to validate it."""
        if self._get_action() not in OPERATIONS:
            super().parse_parameters(request)

    def create_training_job(self) -> ActionResult:
        """Answer CreateTrainingJob."""
        return ActionResult({"TrainingJobArn": self._backend.create_training(self._request("CreateTrainingJob")).arn})

    def describe_training_job(self) -> ActionResult:
        """Answer DescribeTrainingJob; as SageMaker does, with ValidationException where there is none."""
        job = self._backend.training.get(self._request("DescribeTrainingJob")["TrainingJobName"])
        if job is None:
            raise AWSValidationException("Requested resource not found.")
        return ActionResult(job.describe())

    def stop_training_job(self) -> ActionResult:
        """Answer StopTrainingJob, which moto does not have."""
        name = self._request("StopTrainingJob")["TrainingJobName"]
        self._backend.stop(self._backend.training, name, ResourceNotFound("Requested resource not found."))
        return EmptyResult()

    def list_training_jobs(self) -> ActionResult:
        """Answer ListTrainingJobs."""
        request = self._request("ListTrainingJobs")
        return ActionResult(listing.page(self._backend.training.values(), request, "TrainingJobSummaries"))

    def create_processing_job(self) -> ActionResult:
        """Answer CreateProcessingJob."""
        job = self._backend.create_processing(self._request("CreateProcessingJob"))
        return ActionResult({"ProcessingJobArn": job.arn})

    def describe_processing_job(self) -> ActionResult:
        """Answer DescribeProcessingJob."""
        name = self._request("DescribeProcessingJob")["ProcessingJobName"]
        job = self._backend.processing.get(name)
        if job is None:
            raise self._no_processing_job(name)
        return ActionResult(job.describe())

    def stop_processing_job(self) -> ActionResult:
        """Answer StopProcessingJob."""
        name = self._request("StopProcessingJob")["ProcessingJobName"]
        self._backend.stop(self._backend.processing, name, self._no_processing_job(name))
        return EmptyResult()

    def list_processing_jobs(self) -> ActionResult:
        """Answer ListProcessingJobs."""
        request = self._request("ListProcessingJobs")
        return ActionResult(listing.page(self._backend.processing.values(), request, "ProcessingJobSummaries"))

    @property
    def _backend(self) -> DrydockBackend:
        return cast(DrydockBackend, self.sagemaker_backend)

    def _no_processing_job(self, name: str) -> AWSValidationException:
        arn = FakeProcessingJob.arn_formatter(name, self._backend.account_id, self._backend.region_name)
        return AWSValidationException(f"Could not find processing job '{arn}'.")

    def _request(self, operation: str) -> dict[str, Any]:
        try:
            content = json.loads(self.body)
        except ValueError as error:
            raise AWSValidationException(f"The request body is not JSON: {error}") from error
        return validate(operation, content)


def install(yard: Yard, store: Store) -> None:
    """From now on moto's SageMaker, in this process, runs jobs in yard; those of earlier servers go on."""
    sagemaker_backends.clear()
    sagemaker_backends.backend = bound(DrydockBackend, yard, store)
    store.ensure(SCHEMA)
    last_alive = Heartbeat(store).last()
    rows = store.read("SELECT kind, account, region, record FROM jobs ORDER BY created, name")
    for kind, account, region, text in rows:
        backend = cast(DrydockBackend, sagemaker_backends[account][region])
        job = backend.restore(kind, Record.load(text))
        if not job.status.ended:
            yard.resume(job, last_alive)


def jobs() -> Iterator[Job]:
    """Yield every job of all accounts and regions."""
    for _, _, backend in list(sagemaker_backends.iter_backends()):
        found = cast(DrydockBackend, backend)
        yield from [*found.training.values(), *found.processing.values()]


def jobs_by_status() -> dict[str, int]:
    """Return how many jobs of all accounts and regions are in each status."""
    found: Counter[str] = Counter({str(status): 0 for status in Status})
    found.update(str(job.status) for job in jobs())
    return dict(found)
