"""Training jobs, as CreateTrainingJob asks for them and DescribeTrainingJob shows them."""

from collections.abc import Mapping
from typing import Any

from drydock.job import Job
from drydock.record import Record, Transition, now
from drydock.states import MESSAGES, Phase
from drydock.store import Store

# What CreateTrainingJob fills in when the request leaves it out.
DEFAULTS: dict[str, Any] = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}
DEFAULT_MAX_RUNTIME_S = 86_400
SUMMARY_KEYS = (
    "TrainingJobName",
    "TrainingJobArn",
    "CreationTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "TrainingJobStatus",
    "SecondaryStatus",
)


def new_record(request: Mapping[str, Any], arn: str, defaults: Mapping[str, Any], billable_fraction: float) -> Record:
    """Return the record of a job that begins now."""
    filled = {**defaults, **{key: value for key, value in request.items() if key != "Tags"}}
    filled["StoppingCondition"] = {"MaxRuntimeInSeconds": DEFAULT_MAX_RUNTIME_S, **request.get("StoppingCondition", {})}
    first = Transition(Phase.STARTING, now(), MESSAGES[Phase.STARTING])
    return Record(filled, arn, list(request.get("Tags", [])), [first], first.start, billable_fraction)


class TrainingJob(Job):
    """A training job."""

    kind = "training"
    name_key = "TrainingJobName"
    log_group = "/aws/sagemaker/TrainingJobs"
    tree = "jobs"

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
        return cls(store, account_id, region, new_record(request, arn, DEFAULTS, fraction))

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

    def summary(self) -> dict[str, Any]:
        """Return the job's line in ListTrainingJobs."""
        shown = self.describe()
        return {key: shown[key] for key in SUMMARY_KEYS if key in shown}

    def _metrics(self) -> list[dict[str, Any]]:
        """FinalMetricDataList, in the order of the definitions."""
        definitions = self.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        found = self.record.metrics
        names = [item["Name"] for item in definitions if item["Name"] in found]
        return [{"MetricName": name, "Value": found[name][0], "Timestamp": found[name][1]} for name in names]
