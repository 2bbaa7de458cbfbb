"""Training jobs, as CreateTrainingJob requests them and DescribeTrainingJob shows them."""

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from drydock.jobs.job import Job
from drydock.jobs.metrics import FinalMetrics, parse_series
from drydock.jobs.pattern_search import shared_search
from drydock.jobs.record import ParentTuning, add_default_runtime, create_record
from drydock.store import Store

# Values that CreateTrainingJob fills in if the request leaves them out.
DEFAULTS: dict[str, Any] = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}


class TrainingJob(Job):
    """A training job."""

    api_name = "Training"
    folder = "jobs"
    summary_keys = (
        "TrainingJobName",
        "TrainingJobArn",
        "CreationTime",
        "TrainingEndTime",
        "LastModifiedTime",
        "TrainingJobStatus",
        "SecondaryStatus",
    )
    # The beginning of the error for a name that is in use; the API adds the rest, " job with this name already exists".
    duplicate_name_prefix = "Training job names must be unique within an AWS account and region, and a training"

    @classmethod
    def create(
        cls,
        store: Store,
        request: Mapping[str, Any],
        account_id: str,
        region: str,
        arn: str,
        spot_fraction: float,
        tuning: ParentTuning | None = None,
    ) -> "TrainingJob":
        """Return a new job, which is not stored before the first `save`.

        Args:
            store: Storage of the record.
            request: A CreateTrainingJob request that passed `rules.check_request`.
            account_id: Id of the account that creates the job.
            region: Name of the region, such as us-east-1.
            arn: The job's ARN.
            spot_fraction: Billable seconds per training second if the job runs on spot instances; above 0, at most 1.
            tuning: The tuning job that starts the job, if there is one.
        """
        billable_fraction = spot_fraction if request.get("EnableManagedSpotTraining") else 1.0
        full_request = add_default_runtime({**DEFAULTS, **request})
        record = create_record(full_request, arn, billable_fraction)
        record.tuning = tuning
        return cls(store, account_id, region, record)

    @property
    def has_metrics(self) -> bool:
        """Whether the request has MetricDefinitions."""
        return bool(self._metric_definitions)

    def update_metrics(self, lines: Sequence[str], printed_ms: int) -> None:
        """Update and store FinalMetricDataList, and the values of a tuning job's objective, from lines of the log.

        Args:
            lines: New lines of the log.
            printed_ms: When the lines were printed, in milliseconds since 1970.
        """
        printed_at = datetime.fromtimestamp(printed_ms / 1000, UTC)
        metrics = self._final_metrics
        values_before, objective_values = metrics.last_values, list[float | None]()
        for definition in self._metric_definitions:
            texts = shared_search.find(definition["Regex"], lines)
            metrics.update(definition["Name"], texts, printed_at)
            if self.record.tuning and definition["Name"] == self.record.tuning.metric:
                objective_values = parse_series(texts)
        # `FinalMetrics.update` replaces the mapping if a value is new, so the mappings need not be compared.
        if objective_values or metrics.last_values is not values_before:
            self.record.metrics = dict(metrics.last_values)
            self.record.objective_values += objective_values
            self.save()

    @functools.cached_property
    def _final_metrics(self) -> FinalMetrics:
        return FinalMetrics(self.record.metrics)

    @property
    def _metric_definitions(self) -> Sequence[Mapping[str, str]]:
        definitions: Sequence[Mapping[str, str]] = self.request["AlgorithmSpecification"].get("MetricDefinitions", [])
        return definitions

    @property
    def image(self) -> str:
        """TrainingImage; "" if the request names an algorithm instead."""
        return str(self.request["AlgorithmSpecification"].get("TrainingImage", ""))

    @property
    def arguments(self) -> Sequence[str]:
        """ContainerArguments, or SageMaker's default for them."""
        arguments: Sequence[str] = self.request["AlgorithmSpecification"].get("ContainerArguments", ["train"])
        return arguments

    @property
    def resources(self) -> Mapping[str, Any]:
        """ResourceConfig."""
        resources: Mapping[str, Any] = self.request["ResourceConfig"]
        return resources

    @property
    def training_job_name(self) -> str:
        """The name, for moto's Search."""
        return self.name

    @property
    def training_job_status(self) -> str:
        """The status, for moto's Search."""
        return str(self.status)

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeTrainingJob."""
        with self._lock:
            record = self.record
            training_s, billable_s = self.measure_seconds() or (None, None)
            response = {
                **self.request,
                "TrainingJobArn": self.arn,
                "TuningJobArn": record.tuning and record.tuning.arn,
                "TrainingJobStatus": str(self.status),
                "SecondaryStatus": str(self.phase),
                "SecondaryStatusTransitions": [transition.describe() for transition in record.transitions],
                "CreationTime": self.created_at,
                "LastModifiedTime": record.modified,
                "TrainingStartTime": self.started_at,
                "TrainingEndTime": self.started_at and self.ended_at,
                "TrainingTimeInSeconds": training_s,
                "BillableTimeInSeconds": billable_s,
                "FailureReason": record.reason,
                "ModelArtifacts": record.artifacts and {"S3ModelArtifacts": record.artifacts},
                "FinalMetricDataList": self._describe_metrics() or None,
            }
        return {key: value for key, value in response.items() if value is not None}

    def _describe_metrics(self) -> list[dict[str, Any]]:
        """Return FinalMetricDataList, in the order of MetricDefinitions."""
        metrics = self.record.metrics
        names = [definition["Name"] for definition in self._metric_definitions if definition["Name"] in metrics]
        return [{"MetricName": name, "Value": metrics[name][0], "Timestamp": metrics[name][1]} for name in names]
