"""Training jobs, as CreateTrainingJob asks for them and DescribeTrainingJob shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.record import limited, new_record
from drydock.store import Store

# What CreateTrainingJob fills in when the request leaves it out.
DEFAULTS: dict[str, Any] = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}


class TrainingJob(Job):
    """A training job."""

    word = "Training"
    tree = "jobs"
    summary_keys = (
        "TrainingJobName",
        "TrainingJobArn",
        "CreationTime",
        "TrainingEndTime",
        "LastModifiedTime",
        "TrainingJobStatus",
        "SecondaryStatus",
    )
    taken = "Training job names must be unique within an AWS account and region, and a training"

    @classmethod
    def create(
        cls, store: Store, request: Mapping[str, Any], account_id: str, region: str, arn: str, spot_fraction: float
    ) -> "TrainingJob":
        """Return a new job; it is stored by the first `save`.

        Args:
            store: Where it will be kept.
            request: Of CreateTrainingJob, checked.
            account_id: The account.
            region: The region.
            arn: The job's ARN.
            spot_fraction: Billable seconds per training second, for a job on spot instances.
        """
        fraction = spot_fraction if request.get("EnableManagedSpotTraining") else 1.0
        return cls(store, account_id, region, new_record(limited({**DEFAULTS, **request}), arn, fraction))

    @property
    def image(self) -> str:
        """TrainingImage; "" where an algorithm is named."""
        return str(self.request["AlgorithmSpecification"].get("TrainingImage", ""))

    @property
    def arguments(self) -> Sequence[str]:
        """ContainerArguments, or what SageMaker gives in their place."""
        found: Sequence[str] = self.request["AlgorithmSpecification"].get("ContainerArguments", ["train"])
        return found

    @property
    def resources(self) -> Mapping[str, Any]:
        """ResourceConfig."""
        found: Mapping[str, Any] = self.request["ResourceConfig"]
        return found

    @property
    def training_job_name(self) -> str:
        """The name, for moto's Search."""
        return self.name

    @property
    def training_job_status(self) -> str:
        """The status, for moto's Search."""
        return str(self.status)

    def describe(self) -> dict[str, Any]:
        """Return what DescribeTrainingJob answers."""
        with self._lock:
            record = self.record
            training, billable = self.seconds() or (None, None)
            answer = {
                **self.request,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": str(self.status),
                "SecondaryStatus": str(self.phase),
                "SecondaryStatusTransitions": [line.describe() for line in record.transitions],
                "CreationTime": self.created,
                "LastModifiedTime": record.modified,
                "TrainingStartTime": self.started,
                "TrainingEndTime": self.started and self.ended,
                "TrainingTimeInSeconds": training,
                "BillableTimeInSeconds": billable,
                "FailureReason": record.reason,
                "ModelArtifacts": record.artifacts and {"S3ModelArtifacts": record.artifacts},
                "FinalMetricDataList": self._metrics() or None,
            }
        return {key: value for key, value in answer.items() if value is not None}

    def _metrics(self) -> list[dict[str, Any]]:
        """FinalMetricDataList, in the order of the definitions."""
        definitions = self.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        found = self.record.metrics
        names = [item["Name"] for item in definitions if item["Name"] in found]
        return [{"MetricName": name, "Value": found[name][0], "Timestamp": found[name][1]} for name in names]
