"""Processing jobs, as CreateProcessingJob asks for them and DescribeProcessingJob shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.record import limited, new_record
from drydock.store import Store


class ProcessingJob(Job):
    """A processing job. Its phases are a training job's, but the API does not show them."""

    word = "Processing"
    tree = "processing"
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
        """Return a new job; it is stored by the first `save`."""
        return cls(store, account_id, region, new_record(limited(request), arn))

    @property
    def image(self) -> str:
        """AppSpecification.ImageUri."""
        return str(self.request["AppSpecification"]["ImageUri"])

    @property
    def arguments(self) -> Sequence[str]:
        """ContainerArguments."""
        found: Sequence[str] = self.request["AppSpecification"].get("ContainerArguments", [])
        return found

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
