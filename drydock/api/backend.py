"""The SageMaker backend of one account and region: its jobs, and the tags of all its resources."""

import threading
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException
from moto.sagemaker.models import FakeProcessingJob, FakeTrainingJob, FakeTransformJob, Model

from drydock.api.notebooks.backend import NotebooksBackend
from drydock.endpoints.config import EndpointConfig
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.registry import Endpoints
from drydock.execution.queue import JobQueue
from drydock.feature_store.group import FeatureGroup
from drydock.feature_store.registry import FeatureGroups
from drydock.jobs.job import Job
from drydock.jobs.kinds import KINDS, find_kind
from drydock.jobs.processing import rules as processing_rules
from drydock.jobs.processing.job import ProcessingJob
from drydock.jobs.record import ParentTuning, Record
from drydock.jobs.rules import check_owner
from drydock.jobs.training import rules as training_rules
from drydock.jobs.training.job import TrainingJob
from drydock.jobs.transform import rules as transform_rules
from drydock.jobs.transform.job import TransformJob
from drydock.notebooks.item import NotebookItem
from drydock.notebooks.registry import Notebooks
from drydock.store import Store
from drydock.tuning.job import TuningJob
from drydock.tuning.registry import TuningJobs

J = TypeVar("J", bound=Job)
STORED_CLASSES = (Job, TuningJob, Endpoint, EndpointConfig, FeatureGroup, Model, NotebookItem)
"""Classes of the resources that drydock stores with their tags; moto keeps the tags of all others in memory."""


class DrydockBackend(NotebooksBackend):
    """The SageMaker backend of one account and region.

    moto implements the operations that neither this class nor drydock's base classes define.

    Args:
        queue: Runs the jobs.
        store: Storage of the jobs.
        endpoints: The endpoints of all accounts and regions.
        feature_groups: The feature groups of all accounts and regions.
        tuning_jobs: The tuning jobs of all accounts and regions.
        notebooks: The notebook instances and Studio apps of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(
        self,
        queue: JobQueue,
        store: Store,
        endpoints: Endpoints,
        feature_groups: FeatureGroups,
        tuning_jobs: TuningJobs,
        notebooks: Notebooks,
        region_name: str,
        account_id: str,
    ) -> None:
        super().__init__(notebooks, endpoints, feature_groups, tuning_jobs, region_name, account_id)
        self.queue, self.store = queue, store
        self.gives_invented_answers = queue.settings.gives_invented_answers
        self.jobs: dict[type[Job], dict[str, Any]] = {kind: {} for kind in KINDS}
        # moto's tagging and Search read these attributes.
        self.training_jobs: dict[str, FakeTrainingJob] = self.jobs[TrainingJob]
        self.processing_jobs: dict[str, FakeProcessingJob] = self.jobs[ProcessingJob]
        self.transform_jobs: dict[str, FakeTransformJob] = self.jobs[TransformJob]
        self._create_lock = threading.Lock()

    def reset(self) -> None:
        """Stop and delete all jobs, and delete all other stored resources, for moto's /moto-api/reset."""
        self._tuning_jobs.delete_all(self._owner)  # first, because they would start more jobs
        for job in self.list_jobs():
            job.discard()
            self.queue.stop(job)
        with self.store.transaction() as db:
            db.execute("DELETE FROM jobs WHERE account = ? AND region = ?", (self.account_id, self.region_name))
        self.delete_stored_resources()
        registries = (self._registry, self._feature_groups, self._tuning_jobs, self._notebooks)
        arguments = (self.queue, self.store, *registries, self.region_name, self.account_id)
        # As moto's own `reset` does: delete all attributes, and construct the backend again.
        self.__dict__.clear()
        DrydockBackend.__init__(self, *arguments)

    def list_jobs(self) -> list[Job]:
        """Return the jobs of every kind."""
        return [job for jobs_of_kind in self.jobs.values() for job in list(jobs_of_kind.values())]

    def create_training(self, request: Mapping[str, Any], tuning: ParentTuning | None = None) -> TrainingJob:
        """Create a training job and add it to the queue.

        Args:
            request: A CreateTrainingJob request.
            tuning: The tuning job that creates the training job; None if no tuning job does.

        Raises:
            AWSValidationException: drydock cannot run the job. A retry cannot help.
            ResourceInUseException: A training job of this name exists. A retry cannot help.
        """
        training_rules.check_request(request)
        arn = FakeTrainingJob.arn_formatter(request["TrainingJobName"], self.account_id, self.region_name)
        spot_fraction = self.queue.market.policy.billable_fraction
        owner = (self.account_id, self.region_name)
        job = TrainingJob.create(self.store, request, *owner, arn, spot_fraction, tuning)
        return self._add_job(job)

    def create_processing(self, request: Mapping[str, Any]) -> ProcessingJob:
        """Create a processing job and add it to the queue.

        Raises:
            AWSValidationException: drydock cannot run the job. A retry cannot help.
            ResourceInUseException: A processing job of this name exists. A retry cannot help.
        """
        processing_rules.check_request(request)
        arn = FakeProcessingJob.arn_formatter(request["ProcessingJobName"], self.account_id, self.region_name)
        job = ProcessingJob.create(self.store, request, self.account_id, self.region_name, arn)
        return self._add_job(job)

    def create_transform(self, request: Mapping[str, Any]) -> TransformJob:
        """Create a transform job of an existing model and add it to the queue.

        Raises:
            AWSValidationException: drydock cannot run the job, or the model does not exist. A retry cannot help.
            ResourceInUseException: A transform job of this name exists. A retry cannot help.
        """
        transform_rules.check_request(request)
        container = self.find_container(request["ModelName"])
        arn = FakeTransformJob.arn_formatter(request["TransformJobName"], self.account_id, self.region_name)
        job = TransformJob.create(self.store, request, self.account_id, self.region_name, arn, container)
        return self._add_job(job)

    def restore(self, kind: str, record: Record) -> Job:
        """Add a job that an earlier server process stored, and return it. The job is not queued.

        Args:
            kind: Name of the job's kind in the store.
            record: The job's record.
        """
        job_class = find_kind(kind)
        assert job_class is not None, f"the store has a job of the unknown kind {kind}"
        job: Job = job_class(self.store, self.account_id, self.region_name, record)
        self.jobs[job_class][job.name] = job
        return job

    def add_tags(self, arn: str, tags: list[dict[str, str]]) -> list[dict[str, str]]:
        """Add tags to a resource, and replace the values of equal keys. Return all tags of the resource."""
        resource = self._get_resource_from_arn(arn)
        if not isinstance(resource, STORED_CLASSES):
            return cast("list[dict[str, str]]", super().add_tags(arn, tags))
        keys = {tag["Key"] for tag in tags}
        self._save_tags(resource, [tag for tag in resource.tags if tag["Key"] not in keys] + tags)
        return cast("list[dict[str, str]]", resource.tags)

    def delete_tags(self, arn: str, tag_keys: list[str]) -> None:
        """Remove tags from a resource. Idempotent."""
        resource = self._get_resource_from_arn(arn)
        if not isinstance(resource, STORED_CLASSES):
            super().delete_tags(arn, tag_keys)
            return
        self._save_tags(resource, [tag for tag in resource.tags if tag["Key"] not in tag_keys])

    def _save_tags(self, resource: Any, tags: list[dict[str, str]]) -> None:
        """Set the tags of a resource, and store it."""
        if isinstance(resource, Job):
            resource.record.tags = tags
            resource.save()
            return
        if isinstance(resource, NotebookItem):
            resource.tags = tags
            self.save_notebook_item(resource)
            return
        if isinstance(resource, TuningJob | Endpoint):
            resource.set_tags(tags)
            return
        resource.tags = tags
        if isinstance(resource, FeatureGroup):
            self.save_group(resource)
        elif isinstance(resource, EndpointConfig):
            self.save_config(resource)
        else:
            self.save_model(resource)

    def find_job(self, kind: type[Job], name: str) -> Job | None:
        """Return a job; None if it does not exist."""
        return self.jobs[kind].get(name)

    def stop_job(self, job: Job) -> None:
        """Stop a job.

        Raises:
            AWSValidationException: The job has ended. A retry cannot help.
        """
        status_before = self.queue.stop(job)
        if status_before.is_final:
            message = f"The request was rejected because the {job.kind} job is in status {status_before}."
            raise AWSValidationException(message)

    def _add_job(self, job: J) -> J:
        """Store a new job and add it to the queue. Refuse a name that is in use."""
        check_owner(self.account_id, self.region_name)
        jobs_of_kind = self.jobs[type(job)]
        with self._create_lock:
            if job.name in jobs_of_kind:
                message = f"{job.duplicate_name_prefix} job with this name already exists ({job.arn})"
                raise ResourceInUseException(message)
            job.save()
            jobs_of_kind[job.name] = job
        self.queue.submit(job)
        return job
