"""Create tuning jobs on a running server, and wait for their ends."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

LOSS = [{"Name": "loss", "Regex": "loss=([-+0-9.e]+|nan);"}]
ENDED = ("Completed", "Failed", "Stopped")


@dataclass
class Tuner:
    """Creates tuning jobs on one server, whose trials run a script with the hyperparameter rate."""

    drydock: Any

    @property
    def sagemaker(self) -> Any:
        """The client."""
        return self.drydock.client("sagemaker")

    def build_request(self, name: str, script: str, **options: Any) -> dict[str, Any]:
        """Return the request of a tuning job.

        Args:
            name: Name of the tuning job.
            script: The training script.
            options: `limits`, `ranges`, `static`, and `definition` (each a dictionary that is merged into its part of
                the request), members of HyperParameterTuningJobConfig, and `request` for members beside it.
        """
        options = dict(options)
        limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2, **options.pop("limits", {})}
        ranges = options.pop(
            "ranges", {"ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0", "MaxValue": "1"}]}
        )
        source = self.drydock.upload_source(name, script)
        static = {"sagemaker_program": "train.py", "sagemaker_submit_directory": source, **options.pop("static", {})}
        definition = {
            "AlgorithmSpecification": {
                "TrainingImage": "image",
                "TrainingInputMode": "File",
                "MetricDefinitions": LOSS,
            },
            "RoleArn": "arn:aws:iam::123456789012:role/drydock",
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/output"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            "StaticHyperParameters": static,
            **options.pop("definition", {}),
        }
        request = options.pop("request", {})
        config = {
            "Strategy": "Random",
            "RandomSeed": 7,
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
            "ResourceLimits": limits,
            "ParameterRanges": ranges,
            **options,
        }
        return {
            "HyperParameterTuningJobName": name,
            "HyperParameterTuningJobConfig": {key: value for key, value in config.items() if value is not None},
            "TrainingJobDefinition": definition,
            **request,
        }

    def create(self, name: str, script: str, **options: Any) -> str:
        """Create a tuning job, and return its ARN."""
        request = self.build_request(name, script, **options)
        return str(self.sagemaker.create_hyper_parameter_tuning_job(**request)["HyperParameterTuningJobArn"])

    def describe(self, name: str) -> dict[str, Any]:
        """Return the description of a tuning job."""
        return dict(self.sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=name))

    def wait_for_end(self, name: str) -> dict[str, Any]:
        """Wait for the end of a tuning job, and return its description."""

        def find_ended_job() -> dict[str, Any] | None:
            job = self.describe(name)
            return job if job["HyperParameterTuningJobStatus"] in ENDED else None

        return dict(self.drydock.wait_until(f"the end of {name}", find_ended_job))

    def run(self, name: str, script: str, **options: Any) -> dict[str, Any]:
        """Create a tuning job, wait for its end, and return its description."""
        self.create(name, script, **options)
        return self.wait_for_end(name)

    def list_trials(self, name: str, **query: Any) -> list[dict[str, Any]]:
        """Return the summaries of the trials, in the order of their creation unless the query has another one."""
        query = {"MaxResults": 100, **query}
        response = self.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(
            HyperParameterTuningJobName=name, **query
        )
        return list(response["TrainingJobSummaries"])


@pytest.fixture(scope="module")
def tuner(drydock: Any) -> Tuner:
    """Return a tuner of the module's server."""
    return Tuner(drydock)


@pytest.fixture(scope="session")
def make_tuner() -> Callable[[Any], Tuner]:
    """Return the function that makes a tuner of another server."""
    return Tuner


def get_value(trial: dict[str, Any]) -> float | None:
    """Return the objective of a trial's summary; None if it has none."""
    metric = trial.get("FinalHyperParameterTuningJobObjectiveMetric")
    return None if metric is None else metric["Value"]


@pytest.fixture(scope="session")
def read_objective() -> Callable[[dict[str, Any]], float | None]:
    """Return `get_value`."""
    return get_value
