"""Read the request of a tuning job, and build the requests of its training jobs."""

import functools
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drydock.host.hyperparameters import TUNING_METRIC
from drydock.tuning.ranges import Range, count_combinations, read_ranges

# Members of a training job definition that its training jobs have, too.
_SHARED_MEMBERS = (
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "VpcConfig",
    "OutputDataConfig",
    "StoppingCondition",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "RetryStrategy",
    "Environment",
)
# Without MaxResource, Hyperband's limit is the first of these static hyperparameters that the request has.
_EPOCH_NAMES = ("epochs", "numepochs", "n-epochs", "n_epochs", "num_epochs")


@dataclass(frozen=True)
class Objective:
    """The metric that the tuning job optimizes."""

    metric: str
    is_minimized: bool

    def is_better(self, value: float, other: float) -> bool:
        """Return whether a value is better than another."""
        return value < other if self.is_minimized else value > other


class TuningPlan:
    """The content of a CreateHyperParameterTuningJob request that has passed `rules.check_request`.

    Args:
        request: The request.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.config: Mapping[str, Any] = request["HyperParameterTuningJobConfig"]
        # A list of one definition is the same as that definition.
        self.definition: Mapping[str, Any] = (
            request["TrainingJobDefinition"]
            if "TrainingJobDefinition" in request
            else request["TrainingJobDefinitions"][0]
        )
        self.strategy = str(self.config["Strategy"])
        self._limits: Mapping[str, Any] = self.config["ResourceLimits"]

    @property
    def definition_name(self) -> str | None:
        """DefinitionName; None if the request has none."""
        return self.definition.get("DefinitionName")

    @functools.cached_property
    def objective(self) -> Objective:
        """The objective of the tuning job, or else of its definition."""
        objective = self.config.get("HyperParameterTuningJobObjective") or self.definition["TuningObjective"]
        return Objective(objective["MetricName"], objective["Type"] == "Minimize")

    @functools.cached_property
    def ranges(self) -> list[Range]:
        """The ranges of the tuned hyperparameters."""
        return read_ranges(self.config.get("ParameterRanges") or self.definition.get("HyperParameterRanges", {}))

    @property
    def static_values(self) -> Mapping[str, str]:
        """The hyperparameters that all trials share."""
        values: Mapping[str, str] = self.definition.get("StaticHyperParameters", {})
        return values

    @property
    def max_trials(self) -> int:
        """Largest number of trials that the tuning job starts, not counting retries."""
        if self.strategy == "Grid":
            return int(count_combinations(self.ranges))
        return int(self._limits["MaxNumberOfTrainingJobs"])

    @property
    def max_parallel_trials(self) -> int:
        """Largest number of training jobs that run at the same time."""
        return int(self._limits["MaxParallelTrainingJobs"])

    @property
    def max_runtime_s(self) -> float:
        """Seconds after the creation of the tuning job at which its training jobs are stopped, or infinity."""
        return float(self._limits.get("MaxRuntimeInSeconds", math.inf))

    @property
    def criteria(self) -> Mapping[str, Any]:
        """TuningJobCompletionCriteria."""
        criteria: Mapping[str, Any] = self.config.get("TuningJobCompletionCriteria", {})
        return criteria

    @property
    def stops_early(self) -> bool:
        """Whether trials that are worse than the median of others are stopped."""
        return bool(self.config.get("TrainingJobEarlyStoppingType") == "Auto")

    @property
    def max_retries(self) -> int:
        """How often a trial may be repeated with the same values, if its training job fails with an internal error."""
        return int(self.definition.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0))

    @property
    def resource_bounds(self) -> tuple[int, int]:
        """Hyperband's MinResource and MaxResource. The resource of a trial is how often it has logged the objective."""
        bounds = self.config.get("StrategyConfig", {}).get("HyperbandStrategyConfig", {})
        high = bounds.get("MaxResource") or infer_max_resource(self.definition)
        assert high is not None, "rules.check_request refuses a request without it"
        return int(bounds.get("MinResource", 1)), int(high)

    def build_trial_request(self, name: str, values: Mapping[str, str], tags: list[dict[str, str]]) -> dict[str, Any]:
        """Return the CreateTrainingJob request of a trial.

        Each trial has its own folder of checkpoints, below the definition's S3Uri: one trial must not resume from the
        checkpoints of another.

        Args:
            name: Name of the training job.
            values: The tuned hyperparameters.
            tags: The tags of the tuning job, which its training jobs get, too.
        """
        request = {member: self.definition[member] for member in _SHARED_MEMBERS if member in self.definition}
        hyperparameters = {TUNING_METRIC: self.objective.metric, **self.static_values, **values}
        request |= {"TrainingJobName": name, "HyperParameters": hyperparameters}
        if resources := read_resources(self.definition):
            request["ResourceConfig"] = resources
        if checkpoints := self.definition.get("CheckpointConfig"):
            request["CheckpointConfig"] = {**checkpoints, "S3Uri": f"{checkpoints['S3Uri'].rstrip('/')}/{name}"}
        return {**request, "Tags": tags} if tags else request


def read_resources(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ResourceConfig of a definition's training jobs, from the member that has it; {} if none has."""
    if "ResourceConfig" in definition:
        return dict(definition["ResourceConfig"])
    config = dict(definition.get("HyperParameterTuningResourceConfig", {}))
    config.pop("AllocationStrategy", None)  # drydock allows only one entry of InstanceConfigs, so it has no effect
    instance_config = config.pop("InstanceConfigs", [{}])[0]
    return {**config, **instance_config}


def infer_max_resource(definition: Mapping[str, Any]) -> int | None:
    """Return Hyperband's MaxResource from the static hyperparameters, as SageMaker does; None if they have none."""
    static_values = definition.get("StaticHyperParameters", {})
    for name in _EPOCH_NAMES:
        text = str(static_values.get(name, "")).strip('"')
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return None


def build_trial_name(tuning_job_name: str, arn: str, created_at: str, number: int) -> str:
    """Return the name of a trial's training job, such as NAME-001-1a2b3c4d.

    The last part makes the name unique: a tuning job can be deleted, and another one can get its name.
    """
    digest = hashlib.sha256(f"{arn}/{created_at}/{number}".encode()).hexdigest()
    return f"{tuning_job_name}-{number:03d}-{digest[:8]}"
