"""Processing jobs, as CreateProcessingJob requests them and DescribeProcessingJob shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.record import add_default_runtime, create_record
from drydock.store import Store


class ProcessingJob(Job):
    """A processing job. It has the phases of a training job, but the API does not show them."""

    api_name = "Processing"
    folder = "processing"
    summary_keys = (
        "ProcessingJobName",
        "ProcessingJobArn",
        "CreationTime",
        "ProcessingEndTime",
        "LastModifiedTime",
        "ProcessingJobStatus",
        "FailureReason",
        "ExitMessage",
    )

    @classmethod
    def create(
        cls, store: Store, request: Mapping[str, Any], account_id: str, region: str, arn: str
    ) -> "ProcessingJob":
        """Return a new job, which is not stored before the first `save`.

        Args:
            store: Storage of the record.
            request: A CreateProcessingJob request that passed `rules.check_request`.
            account_id: Id of the account that creates the job.
            region: Name of the region, such as us-east-1.
            arn: The job's ARN.
        """
        return cls(store, account_id, region, create_record(add_default_runtime(request), arn))

    @property
    def image(self) -> str:
        """Container image that the job runs: AppSpecification.ImageUri."""
        return str(self.request["AppSpecification"]["ImageUri"])

    @property
    def arguments(self) -> Sequence[str]:
        """Arguments of the container: AppSpecification.ContainerArguments."""
        arguments: Sequence[str] = self.request["AppSpecification"].get("ContainerArguments", [])
        return arguments

    @property
    def resources(self) -> Mapping[str, Any]:
        """Instances that the job requests: ProcessingResources.ClusterConfig."""
        resources: Mapping[str, Any] = self.request["ProcessingResources"]["ClusterConfig"]
        return resources

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeProcessingJob."""
        with self._lock:
            response = {
                **self.request,
                "ProcessingJobArn": self.arn,
                "ProcessingJobStatus": str(self.status),
                "CreationTime": self.created_at,
                "LastModifiedTime": self.record.modified,
                "ProcessingStartTime": self.started_at,
                # A job that was stopped before it started has neither a start nor an end.
                "ProcessingEndTime": self.started_at and self.ended_at,
                "FailureReason": self.record.reason,
                "ExitMessage": self.record.message,
            }
        return {key: value for key, value in response.items() if value is not None}
