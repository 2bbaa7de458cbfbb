"""moto's SageMaker with training, processing and transform jobs that run.

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
from moto.sagemaker.models import (
    FakeProcessingJob,
    FakeTrainingJob,
    FakeTransformJob,
    sagemaker_backends,
)
from moto.sagemaker.responses import SageMakerResponse

from drydock.api import listing
from drydock.api.models import ModelsBackend
from drydock.api.validation import validate
from drydock.execution.queue import Yard
from drydock.execution.recovery import Heartbeat
from drydock.jobs.job import Job
from drydock.jobs.kinds import KINDS, kind_of
from drydock.jobs.processing import rules as processing_rules
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.record import SCHEMA, Record
from drydock.jobs.states import Status
from drydock.jobs.training import rules as training_rules
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.transform import rules as transform_rules
from drydock.jobs.transform.job import TransformJob
from drydock.moto_registry import bound
from drydock.store import Store

OPERATIONS = tuple(
    operation
    for kind in KINDS
    for operation in (*(f"{verb}{kind.word}Job" for verb in ("Create", "Describe", "Stop")), f"List{kind.word}Jobs")
)
J = TypeVar("J", bound=Job)


class DrydockBackend(ModelsBackend):
    """The SageMaker of one account and region."""

    def __init__(self, yard: Yard, store: Store, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.yard, self.store = yard, store
        self.jobs: dict[type[Job], dict[str, Any]] = {kind: {} for kind in KINDS}
        # moto's tagging and Search look the jobs up under its own names.
        self.training_jobs: dict[str, FakeTrainingJob] = self.jobs[TrainingJob]
        self.processing_jobs: dict[str, FakeProcessingJob] = self.jobs[ProcessingJob]
        self.transform_jobs: dict[str, FakeTransformJob] = self.jobs[TransformJob]
        self._creating = threading.Lock()

    def reset(self) -> None:
        """Nothing is known of any job (moto's /moto-api/reset); what ran has been told to stop."""
        for job in self.all_jobs():
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

    def all_jobs(self) -> list[Job]:
        """The jobs of every kind."""
        return [job for known in self.jobs.values() for job in list(known.values())]

    def create_training(self, request: Mapping[str, Any]) -> TrainingJob:
        """The job exists and runs or waits.

        Raises:
            AWSValidationException: The request asks for what drydock does not do.
            ResourceInUseException: There is a job of this name already.
        """
        training_rules.check_request(request)
        arn = FakeTrainingJob.arn_formatter(request["TrainingJobName"], self.account_id, self.region_name)
        fraction = self.yard.market.policy.billable_fraction
        job = TrainingJob.create(self.store, request, self.account_id, self.region_name, arn, fraction)
        return self._added(job)

    def create_processing(self, request: Mapping[str, Any]) -> ProcessingJob:
        """As `create_training`, for a processing job."""
        processing_rules.check_request(request)
        arn = FakeProcessingJob.arn_formatter(request["ProcessingJobName"], self.account_id, self.region_name)
        job = ProcessingJob.create(self.store, request, self.account_id, self.region_name, arn)
        return self._added(job)

    def create_transform(self, request: Mapping[str, Any]) -> TransformJob:
        """As `create_training`, for a transform job; its model must be there."""
        transform_rules.check_request(request)
        container = self.container(request["ModelName"])
        arn = FakeTransformJob.arn_formatter(request["TransformJobName"], self.account_id, self.region_name)
        return self._added(TransformJob.create(self.store, request, self.account_id, self.region_name, arn, container))

    def restore(self, kind: str, record: Record) -> Job:
        """A job of an earlier server is known again."""
        made = kind_of(kind)
        job: Job = made(self.store, self.account_id, self.region_name, record)
        self.jobs[made][job.name] = job
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

    def _added(self, job: J) -> J:
        known = self.jobs[type(job)]
        with self._creating:
            if job.name in known:
                raise ResourceInUseException(f"{job.taken} job with this name already exists ({job.arn})")
            job.save()
            known[job.name] = job
        self.yard.submit(job)
        return job

    def find(self, kind: type[Job], name: str) -> Job | None:
        """Return the job; None where there is none."""
        return self.jobs[kind].get(name)

    def stop(self, job: Job) -> None:
        """The job is being stopped.

        Raises:
            AWSValidationException: It has ended.
        """
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

    def create_processing_job(self) -> ActionResult:
        """Answer CreateProcessingJob."""
        job = self._backend.create_processing(self._request("CreateProcessingJob"))
        return ActionResult({"ProcessingJobArn": job.arn})

    def create_transform_job(self) -> ActionResult:
        """Answer CreateTransformJob."""
        job = self._backend.create_transform(self._request("CreateTransformJob"))
        return ActionResult({"TransformJobArn": job.arn})

    def describe_training_job(self) -> ActionResult:
        """Answer DescribeTrainingJob."""
        return self._described(TrainingJob)

    def describe_processing_job(self) -> ActionResult:
        """Answer DescribeProcessingJob."""
        return self._described(ProcessingJob)

    def describe_transform_job(self) -> ActionResult:
        """Answer DescribeTransformJob."""
        return self._described(TransformJob)

    def stop_training_job(self) -> ActionResult:
        """Answer StopTrainingJob, which moto does not have."""
        return self._stopped(TrainingJob)

    def stop_processing_job(self) -> ActionResult:
        """Answer StopProcessingJob."""
        return self._stopped(ProcessingJob)

    def stop_transform_job(self) -> ActionResult:
        """Answer StopTransformJob, which moto does not have."""
        return self._stopped(TransformJob)

    def list_training_jobs(self) -> ActionResult:
        """Answer ListTrainingJobs."""
        return self._listed(TrainingJob)

    def list_processing_jobs(self) -> ActionResult:
        """Answer ListProcessingJobs."""
        return self._listed(ProcessingJob)

    def list_transform_jobs(self) -> ActionResult:
        """Answer ListTransformJobs."""
        return self._listed(TransformJob)

    def _described(self, kind: type[Job]) -> ActionResult:
        return ActionResult(self._named(kind, "Describe").describe())

    def _stopped(self, kind: type[Job]) -> ActionResult:
        self._backend.stop(self._named(kind, "Stop"))
        return EmptyResult()

    def _listed(self, kind: type[Job]) -> ActionResult:
        request = self._request(f"List{kind.word}Jobs")
        return ActionResult(listing.page(self._backend.jobs[kind].values(), request, f"{kind.word}JobSummaries"))

    def _named(self, kind: type[Job], verb: str) -> Job:
        """The job that a request names, or what SageMaker answers where there is none."""
        name = self._request(f"{verb}{kind.word}Job")[f"{kind.word}JobName"]
        if job := self._backend.find(kind, name):
            return job
        if kind is TrainingJob:
            said = "Requested resource not found."
            raise ResourceNotFound(said) if verb == "Stop" else AWSValidationException(said)
        word, place = kind.word.lower(), f"{self._backend.region_name}:{self._backend.account_id}"
        raise AWSValidationException(f"Could not find {word} job 'arn:aws:sagemaker:{place}:{word}-job/{name}'.")

    @property
    def _backend(self) -> DrydockBackend:
        return cast(DrydockBackend, self.sagemaker_backend)

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
        yield from cast(DrydockBackend, backend).all_jobs()


def jobs_by_status() -> dict[str, int]:
    """Return how many jobs of all accounts and regions are in each status."""
    found: Counter[str] = Counter({str(status): 0 for status in Status})
    found.update(str(job.status) for job in jobs())
    return dict(found)
