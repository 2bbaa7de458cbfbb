"""Answer the operations of tuning jobs."""

from typing import Any, cast

from moto.core.responses import ActionResult, EmptyResult

from drydock.api import listing
from drydock.api.feature_store.responses import FeatureGroupResponse
from drydock.api.tuning.backend import TuningBackend
from drydock.tuning.description import TuningJobItem, describe_tuning_job, list_trial_items
from drydock.tuning.job import TuningJob

TUNING_OPERATIONS = (
    *(f"{verb}HyperParameterTuningJob" for verb in ("Create", "Describe", "Stop", "Delete")),
    "ListHyperParameterTuningJobs",
    "ListTrainingJobsForHyperParameterTuningJob",
)
BY_OBJECTIVE = "FinalObjectiveMetricValue"
"""Value of SortBy for trials in the order of their objectives."""
# The default order of both List operations in SageMaker's API.
_BY_NAME = {"SortBy": "Name"}


class TuningResponse(FeatureGroupResponse):
    """Answers requests for tuning jobs, and those that its base classes answer."""

    def create_hyper_parameter_tuning_job(self) -> ActionResult:
        """Answer CreateHyperParameterTuningJob."""
        arn = self._tuning_backend.create_tuning(self.read_request("CreateHyperParameterTuningJob"))
        return ActionResult({"HyperParameterTuningJobArn": arn})

    def describe_hyper_parameter_tuning_job(self) -> ActionResult:
        """Answer DescribeHyperParameterTuningJob."""
        return ActionResult(describe_tuning_job(self._find_tuning("DescribeHyperParameterTuningJob")))

    def stop_hyper_parameter_tuning_job(self) -> ActionResult:
        """Answer StopHyperParameterTuningJob, which moto does not have."""
        self._tuning_backend.stop_tuning(self._find_tuning("StopHyperParameterTuningJob").name)
        return EmptyResult()

    def delete_hyper_parameter_tuning_job(self) -> ActionResult:
        """Answer DeleteHyperParameterTuningJob."""
        self._tuning_backend.delete_tuning(self._find_tuning("DeleteHyperParameterTuningJob").name)
        return EmptyResult()

    def list_hyper_parameter_tuning_jobs(self) -> ActionResult:
        """Answer ListHyperParameterTuningJobs."""
        request = _BY_NAME | self.read_request("ListHyperParameterTuningJobs")
        items = [TuningJobItem(job) for job in list(self._tuning_backend.hyper_parameter_tuning_jobs.values())]
        return ActionResult(listing.list_page(items, request, "HyperParameterTuningJobSummaries"))

    def list_training_jobs_for_hyper_parameter_tuning_job(self) -> ActionResult:
        """Answer ListTrainingJobsForHyperParameterTuningJob, which moto does not have.

        If the trials are sorted by their objectives, those without an objective are left out.
        """
        operation = "ListTrainingJobsForHyperParameterTuningJob"
        request: dict[str, Any] = _BY_NAME | self.read_request(operation)
        items = list_trial_items(self._find_tuning(operation))
        if request["SortBy"] == BY_OBJECTIVE:
            items = [item for item in items if item.objective is not None]
        return ActionResult(listing.list_page(items, request, "TrainingJobSummaries"))

    def _find_tuning(self, operation: str) -> TuningJob:
        return self._tuning_backend.find_tuning(self.read_request(operation)["HyperParameterTuningJobName"])

    @property
    def _tuning_backend(self) -> TuningBackend:
        return cast(TuningBackend, self.sagemaker_backend)
