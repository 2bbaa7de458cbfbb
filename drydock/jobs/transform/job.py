"""Transform jobs, as CreateTransformJob requests them and DescribeTransformJob shows them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.record import create_record
from drydock.store import Store


class TransformJob(Job):
    """A transform job. It has the phases of a training job, but the API does not show them.

    The job keeps the container of its model as it was when the job was created; later changes of the model do not
    affect it.
    """

    api_name = "Transform"
    folder = "transform"
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
        """Return a new job, which is not stored before the first `save`.

        Args:
            store: Storage of the record.
            request: A CreateTransformJob request that passed `rules.check_request`.
            account_id: Id of the account that creates the job.
            region: Name of the region, such as us-east-1.
            arn: The job's ARN.
            container: The container of the model that the request names.
        """
        record = create_record(request, arn)
        record.model = dict(container)
        return cls(store, account_id, region, record)

    @property
    def container(self) -> Mapping[str, Any]:
        """The container of the job's model: image, model data, environment."""
        return self.record.model or {}

    @property
    def model_data_uri(self) -> str:
        """S3 URI of the model's model.tar.gz."""
        return get_model_data_uri(self.container)

    @property
    def max_payload_mb(self) -> int:
        """Maximum size in MiB of one request to the model; 0 for no limit."""
        return int(self.request.get("MaxPayloadInMB", 6))

    @property
    def image(self) -> str:
        """Image of the model's container."""
        return str(self.container.get("Image", ""))

    @property
    def arguments(self) -> Sequence[str]:
        """The argument that SageMaker starts a model's image with."""
        return ["serve"]

    @property
    def resources(self) -> Mapping[str, Any]:
        """TransformResources."""
        resources: Mapping[str, Any] = self.request["TransformResources"]
        return resources

    def build_metrics_host(self, host: str) -> str:
        """Return the value of the dimension Host. For a transform job, it ends with an invented id of an instance."""
        return f"{self.name}/i-{hashlib.sha256(f'{self.arn}/{host}'.encode()).hexdigest()[:17]}"

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeTransformJob."""
        with self._lock:
            response = {
                **self.request,
                "TransformJobArn": self.arn,
                "TransformJobStatus": str(self.status),
                "CreationTime": self.created_at,
                "TransformStartTime": self.started_at,
                "TransformEndTime": self.started_at and self.ended_at,
                "FailureReason": self.record.reason,
            }
        return {key: value for key, value in response.items() if value is not None}

    def summarize(self) -> dict[str, Any]:
        """Return the job's entry in ListTransformJobs, which has a LastModifiedTime that Describe does not have."""
        return {**super().summarize(), "LastModifiedTime": self.record.modified}


def get_model_data_uri(container: Mapping[str, Any]) -> str:
    """Return the S3 URI of a container's model.tar.gz; "" if the container has none."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return str(container.get("ModelDataUrl") or source.get("S3Uri", ""))
