"""Check the request of a tuning job by the rules of SageMaker and the limits of drydock.

`api.validation` has already checked types and lengths.
"""

import importlib.util
from collections.abc import Mapping
from typing import Any

from moto.sagemaker.exceptions import SagemakerClientError

from drydock.jobs.rules import refuse
from drydock.jobs.training import rules as training_rules
from drydock.tuning.plan import TuningPlan, infer_max_resource, read_resources
from drydock.tuning.range_rules import check_ranges
from drydock.tuning.ranges import count_combinations

# SageMaker's quotas (Amazon SageMaker Developer Guide, "Resource Limits for Automatic Model Tuning").
MAX_PARALLEL_TRIALS = 100
MAX_TRIALS = 750
MAX_RESOURCE = 20_000
MAX_HYPERPARAMETERS = 100


class ResourceLimitExceeded(SagemakerClientError):
    """SageMaker's error for a request above a quota."""

    code = "ResourceLimitExceeded"


def check_request(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the tuning job that a request describes. `warm_start` checks its parent tuning jobs.

    Args:
        request: A CreateHyperParameterTuningJob request that has passed `api.validation`.

    Raises:
        AWSValidationException: drydock cannot run the job. The message names the member, and an alternative if there
            is one.
        ResourceLimitExceeded: The job has too many training jobs, in all or at the same time. A retry cannot help.
    """
    checks = (_check_library, _check_members, _check_definition, _check_strategy, _check_limits, _check_objective)
    for check in checks:
        check(request)
    plan = TuningPlan(request)
    _check_hyperparameter_names(plan)
    if "ResourceConfig" in plan.definition or "HyperParameterTuningResourceConfig" in plan.definition:
        _check_resources(plan.definition)
    # Each trial must obey the rules of a training job. The trial checked here has a placeholder as its name, and no
    # tuned values.
    training_rules.check_request(plan.build_trial_request("trial", values={}, tags=[]))
    _check_combinations(plan)


def _check_library(request: Mapping[str, Any]) -> None:
    if importlib.util.find_spec("optuna") is None:
        refuse("Tuning jobs need the library optuna on the server: pip install 'leeway[drydock]'.")


def _check_members(request: Mapping[str, Any]) -> None:
    """Refuse members that drydock does not support."""
    config = request["HyperParameterTuningJobConfig"]
    if "Autotune" in request:
        refuse("Autotune is not supported by drydock: give ParameterRanges, ResourceLimits and a Strategy.")
    convergence = config.get("TuningJobCompletionCriteria", {}).get("ConvergenceDetected", {})
    if convergence.get("CompleteOnConvergence") == "Enabled":
        refuse("ConvergenceDetected is not supported by drydock: use BestObjectiveNotImproving.")


def _check_definition(request: Mapping[str, Any]) -> None:
    definitions = request.get("TrainingJobDefinitions", [])
    if "TrainingJobDefinition" in request and definitions:
        refuse("You can specify either TrainingJobDefinition or TrainingJobDefinitions, not both.")
    if len(definitions) > 1:
        refuse("Several TrainingJobDefinitions are not supported by drydock: create a tuning job for each of them.")
    if "TrainingJobDefinition" not in request and not definitions:
        refuse("You must specify a TrainingJobDefinition.")


def _check_strategy(request: Mapping[str, Any]) -> None:
    plan = TuningPlan(request)
    config, strategy = plan.config, plan.strategy
    ranges = config.get("ParameterRanges") or plan.definition.get("HyperParameterRanges", {})
    check_ranges(ranges)
    if "StrategyConfig" in config and strategy != "Hyperband":
        refuse("StrategyConfig is only supported when Strategy is Hyperband.")
    if strategy == "Hyperband":
        _check_hyperband(plan)
    if strategy == "Grid" and any(ranges.get(name) for name in ("IntegerParameterRanges", "ContinuousParameterRanges")):
        refuse("Strategy Grid supports only CategoricalParameterRanges: list the values of each hyperparameter.")


def _check_hyperband(plan: TuningPlan) -> None:
    if plan.stops_early:
        refuse("TrainingJobEarlyStoppingType must be Off to use the Hyperband strategy.")
    bounds = plan.config.get("StrategyConfig", {}).get("HyperbandStrategyConfig", {})
    if "MaxResource" not in bounds and infer_max_resource(plan.definition) is None:
        refuse(
            "MaxResource parameter is not provided and could not be inferred from provided static hyperparameters of "
            "TrainingJobDefinition."
        )
    low, high = plan.resource_bounds
    if low >= high or high > MAX_RESOURCE:
        refuse(
            f"Invalid HyperbandStrategyConfig: MinResource {low} must be less than MaxResource {high}, and MaxResource "
            f"at most {MAX_RESOURCE}."
        )


def _check_limits(request: Mapping[str, Any]) -> None:
    config = request["HyperParameterTuningJobConfig"]
    limits = config["ResourceLimits"]
    parallel, total = limits["MaxParallelTrainingJobs"], limits.get("MaxNumberOfTrainingJobs")
    if total is None and config["Strategy"] != "Grid":
        refuse("You must specify ResourceLimits.MaxNumberOfTrainingJobs, unless Strategy is Grid.")
    if total is not None and parallel > total:
        refuse(
            f"Invalid MaxParallelTrainingJobs {parallel}. It must be less than or equal to MaxNumberOfTrainingJobs "
            f"{total}."
        )
    for quota, value, limit in (
        ("Maximum number of parallel training jobs per hyper-parameter tuning job", parallel, MAX_PARALLEL_TRIALS),
        ("Maximum number of training jobs per hyper-parameter tuning job", total or 0, MAX_TRIALS),
    ):
        if value > limit:
            raise ResourceLimitExceeded(
                f"The account-level service limit '{quota}' is {limit}, with a request of {value}."
            )


def _check_objective(request: Mapping[str, Any]) -> None:
    plan = TuningPlan(request)
    if "HyperParameterTuningJobObjective" not in plan.config and "TuningObjective" not in plan.definition:
        refuse("You must specify HyperParameterTuningJobConfig.HyperParameterTuningJobObjective.")
    definitions = plan.definition["AlgorithmSpecification"].get("MetricDefinitions", [])
    if plan.objective.metric not in {definition["Name"] for definition in definitions}:
        refuse(
            "A metric is required for this hyperparameter tuning job objective. Provide a metric in the metric "
            f"definitions: none of them has the name {plan.objective.metric}."
        )


def _check_hyperparameter_names(plan: TuningPlan) -> None:
    tuned_names = {tuned_range.name for tuned_range in plan.ranges}
    if common_names := sorted(tuned_names & plan.static_values.keys()):
        refuse(f"The hyperparameter {common_names[0]} is both static and tuned: remove it from one of the two.")
    if len(tuned_names) + len(plan.static_values) > MAX_HYPERPARAMETERS:
        refuse(f"A training job has at most {MAX_HYPERPARAMETERS} hyperparameters, static and tuned ones together.")


def _check_resources(definition: Mapping[str, Any]) -> None:
    if "ResourceConfig" in definition and "HyperParameterTuningResourceConfig" in definition:
        refuse("You can specify either ResourceConfig or HyperParameterTuningResourceConfig, not both.")
    config = definition.get("HyperParameterTuningResourceConfig", {})
    configs = config.get("InstanceConfigs", [])
    if len(configs) > 1:
        refuse("HyperParameterTuningResourceConfig with several InstanceConfigs is not supported by drydock: give one.")
    if configs and {"InstanceType", "InstanceCount", "VolumeSizeInGB"} & config.keys():
        refuse("HyperParameterTuningResourceConfig: give either InstanceConfigs or InstanceType and InstanceCount.")
    if read_resources(definition).get("KeepAlivePeriodInSeconds"):
        refuse("ResourceConfig.KeepAlivePeriodInSeconds is not supported for tuning jobs.")


def _check_combinations(plan: TuningPlan) -> None:
    count = count_combinations(plan.ranges)
    total = plan.config["ResourceLimits"].get("MaxNumberOfTrainingJobs")
    if plan.strategy == "Grid":
        if total not in (None, count):
            refuse(
                f"Invalid MaxNumberOfTrainingJobs {total}. With Strategy Grid it must equal the number of combinations "
                f"of the categorical values, {count:g}, or be left out."
            )
        if count > MAX_TRIALS:
            raise ResourceLimitExceeded(f"Strategy Grid has {count:g} combinations; the limit is {MAX_TRIALS}.")
    elif count < total:
        refuse(
            "You don't have enough combinations of hyperparameter ranges. The total number of hyperparameter "
            f"combinations for the provided ranges [{count}] must be equal or greater than the value of "
            f"MaxNumberOfJobs, [{total}]. Provide additional ranges."
        )
