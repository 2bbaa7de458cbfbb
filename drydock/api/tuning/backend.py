"""The tuning jobs of one account and region."""

import random
from collections.abc import Mapping
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException, ResourceNotFound
from moto.sagemaker.utils import arn_formatter

from drydock.api.feature_store.backend import FeatureGroupsBackend
from drydock.endpoints.registry import Endpoints
from drydock.feature_store.registry import FeatureGroups
from drydock.jobs.record import get_now
from drydock.jobs.rules import check_owner
from drydock.tuning import rules
from drydock.tuning.description import list_parent_trials
from drydock.tuning.job import TuningJob
from drydock.tuning.records import TuningRecord
from drydock.tuning.registry import TuningJobs
from drydock.tuning.warm_start import check_parents


class TuningBackend(FeatureGroupsBackend):
    """The SageMaker backend of one account and region, with tuning jobs that run.

    Args:
        endpoints: The endpoints of all accounts and regions.
        feature_groups: The feature groups of all accounts and regions.
        tuning_jobs: The tuning jobs of all accounts and regions.
        region_name: The region.
        account_id: The account.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        feature_groups: FeatureGroups,
        tuning_jobs: TuningJobs,
        region_name: str,
        account_id: str,
    ) -> None:
        super().__init__(endpoints, feature_groups, region_name, account_id)
        self._tuning_jobs = tuning_jobs
        # moto's tagging reads this attribute.
        self.hyper_parameter_tuning_jobs: dict[str, Any] = tuning_jobs.get_jobs(self._owner)

    def delete_stored_resources(self) -> None:
        """Delete all tuning jobs, feature groups, endpoints, endpoint configurations and models."""
        self._tuning_jobs.delete_all(self._owner)
        super().delete_stored_resources()

    def create_tuning(self, request: Mapping[str, Any]) -> str:
        """Start a tuning job, and return its ARN.

        Raises:
            AWSValidationException: drydock cannot run the job. A retry cannot help.
            ResourceInUseException: A tuning job of this name exists, ignoring case. A retry cannot help.
            ResourceLimitExceeded: The tuning job has too many training jobs. A retry cannot help.
            ResourceNotFound: A parent of a warm start does not exist. A retry cannot help.
        """
        rules.check_request(request)
        check_owner(self.account_id, self.region_name)
        items = request.get("WarmStartConfig", {}).get("ParentHyperParameterTuningJobs", [])
        parents = [self.find_tuning(item["HyperParameterTuningJobName"]) for item in items]
        check_parents(request, parents)
        record = self._build_record(request)
        record.parent_trials = [trial for parent in parents for trial in list_parent_trials(parent)]
        if not self._tuning_jobs.create(self._owner, record):
            raise ResourceInUseException(
                f"A hyperparameter tuning job with the name, {record.name}, already exists. Choose a different name."
            )
        return record.arn

    def find_tuning(self, name: str) -> TuningJob:
        """Return a tuning job.

        Raises:
            ResourceNotFound: The tuning job does not exist. A retry cannot help.
        """
        job: TuningJob | None = self.hyper_parameter_tuning_jobs.get(name)
        if job is None:
            raise ResourceNotFound(f"Amazon SageMaker can't find a tuning job called {name}. Type another name.")
        return job

    def stop_tuning(self, name: str) -> None:
        """Stop a tuning job and its training jobs.

        Raises:
            AWSValidationException: The tuning job has ended. A retry cannot help.
            ResourceNotFound: The tuning job does not exist. A retry cannot help.
        """
        status = self.find_tuning(name).request_stop()
        if status.is_final:
            raise AWSValidationException(
                f"The request was rejected because the hyperparameter tuning job is in status {status}."
            )

    def delete_tuning(self, name: str) -> None:
        """Delete a tuning job that has ended. Its training jobs stay.

        Raises:
            AWSValidationException: The tuning job has not ended. A retry can help after its end.
            ResourceNotFound: The tuning job does not exist. A retry cannot help.
        """
        job = self.find_tuning(name)
        if not job.status.is_final:
            raise AWSValidationException(
                f"The request was rejected because the hyperparameter tuning job is in status {job.status}: stop it "
                "first."
            )
        self._tuning_jobs.delete(self._owner, name)

    def _build_record(self, request: Mapping[str, Any]) -> TuningRecord:
        name, now = request["HyperParameterTuningJobName"], get_now()
        seed = request["HyperParameterTuningJobConfig"].get("RandomSeed")
        return TuningRecord(
            name=name,
            arn=arn_formatter("hyper-parameter-tuning-job", name, self.account_id, self.region_name),
            request={key: value for key, value in request.items() if key != "Tags"},
            tags=list(request.get("Tags", [])),
            seed=random.getrandbits(31) if seed is None else seed,
            created_at=now,
            modified_at=now,
        )
