"""Transform jobs, as CreateTransformJob asks for them and DescribeTransformJob shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.record import new_record
from drydock.store import Store


class TransformJob(Job):
    """A transform job. Its phases are a training job's, but the API does not show them.

    The container of its model is its own from its creation: what becomes of the model after that is no matter to it.
    """

    word = "Transform"
    tree = "transform"
    summary_keys = (
        "TransformJobName",
        "TransformJobArn",
        "CreationTime",
        "TransformEndTime",
        "LastModifiedTime",
        "TransformJobStatus",
        "FailureReason",
    )

    @classmethod
    def create(
        cls,
        store: Store,
        request: Mapping[str, Any],
        account_id: str,
        region: str,
        arn: str,
        container: Mapping[str, Any],
    ) -> "TransformJob":
        """Return a new job; it is stored by the first `save`.

        Args:
            store: Where it will be kept.
            request: Of CreateTransformJob, checked.
            account_id: The account.
            region: The region.
            arn: The job's ARN.
            container: Of the model that it names.
        """
        record = new_record(request, arn)
        record.model = dict(container)
        return cls(store, account_id, region, record)

    @property
    def container(self) -> Mapping[str, Any]:
        """The container of its model: image, data, environment."""
        return self.record.model or {}

    @property
    def model_data(self) -> str:
        """The s3:// address of model.tar.gz."""
        return model_data(self.container)

    @property
    def max_payload_mb(self) -> int:
        """Most MiB of one request to the model; 0 is endless."""
        return int(self.request.get("MaxPayloadInMB", 6))

    @property
    def image(self) -> str:
        """Image of the model's container."""
        return str(self.container.get("Image", ""))

    @property
    def arguments(self) -> Sequence[str]:
        """As SageMaker gives them."""
        return ["serve"]

    @property
    def resources(self) -> Mapping[str, Any]:
        """TransformResources."""
        found: Mapping[str, Any] = self.request["TransformResources"]
        return found

    def describe(self) -> dict[str, Any]:
        """Return what DescribeTransformJob answers."""
        with self._lock:
            answer = {
                **self.request,
                "TransformJobArn": self.arn,
                "TransformJobStatus": str(self.status),
                "CreationTime": self.created,
                "TransformStartTime": self.started,
                "TransformEndTime": self.started and self.ended,
                "FailureReason": self.record.reason,
            }
        return {key: value for key, value in answer.items() if value is not None}

    def summary(self) -> dict[str, Any]:
        """Return the job's line in ListTransformJobs, which knows a moment that Describe does not."""
        return {**super().summary(), "LastModifiedTime": self.record.modified}


def model_data(container: Mapping[str, Any]) -> str:
    """Return the s3:// address of a container's model.tar.gz; "" where it has none."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return str(container.get("ModelDataUrl") or source.get("S3Uri", ""))
