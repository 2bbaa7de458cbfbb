"""Processing jobs, as CreateProcessingJob asks for them and DescribeProcessingJob shows them."""

from collections.abc import Mapping
from typing import Any

from drydock.job import Job
from drydock.store import Store
from drydock.training_job import new_record

SUMMARY_KEYS = (
    "ProcessingJobName",
    "ProcessingJobArn",
    "CreationTime",
    "ProcessingEndTime",
    "LastModifiedTime",
    "ProcessingJobStatus",
    "FailureReason",
    "ExitMessage",
)


class ProcessingJob(Job):
    """A processing job. Its phases are a training job's, but the API does not show them."""

    kind = "processing"
    name_key = "ProcessingJobName"
    log_group = "/aws/sagemaker/ProcessingJobs"
    tree = "processing"

    @classmethod
    def create(
        cls, store: Store, request: Mapping[str, Any], account_id: str, region: str, arn: str
    ) -> "ProcessingJob":
        """Return a new job; it is stored by the first `save`."""
        return cls(store, account_id, region, new_record(request, arn, {}, billable_fraction=1.0))

    @property
    def resources(self) -> Mapping[str, Any]:
        """ProcessingResources.ClusterConfig."""
        found: Mapping[str, Any] = self.request["ProcessingResources"]["ClusterConfig"]
        return found

    def describe(self) -> dict[str, Any]:
        """Return what DescribeProcessingJob answers."""
        with self._lock:
            answer = {
                **self.request,
                "ProcessingJobArn": self.arn,
                "ProcessingJobStatus": str(self.status),
                "CreationTime": self.created,
                "LastModifiedTime": self.record.modified,
                "ProcessingStartTime": self.started,
                "ProcessingEndTime": self.started and self.ended,
                "FailureReason": self.record.reason,
                "ExitMessage": self.record.message,
            }
        return {key: value for key, value in answer.items() if value is not None}

    def summary(self) -> dict[str, Any]:
        """Return the job's line in ListProcessingJobs."""
        shown = self.describe()
        return {key: shown[key] for key in SUMMARY_KEYS if key in shown}
