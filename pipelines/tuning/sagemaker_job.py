"""Build the configuration of a SageMaker tuning job from a plan, and parse the values of a trial from SageMaker.

The module imports little, because Airflow's operators import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.errors import SpecError
from pipelines.tuning.plan import PlanSpec, Strategy
from pipelines.tuning.rungs import compute_first_rung, get_num_round
from pipelines.tuning.space import CheckedSpace, Range, Value

CHANNELS = ("train", "validation")
"""Channels that a trial reads. The holdout is not among them."""
METRIC_NAME = "tuning-objective"
"""Name of the objective. The training script logs `tuning-objective:NUMBER`; less is better."""
METRIC_REGEX = r"tuning-objective:(\S+)"
"""Regular expression of the objective in the log of the training script, as MetricDefinitions have it."""
STRATEGIES: dict[Strategy, str] = {
    "bayesian": "Bayesian",
    "random": "Random",
    "grid": "Grid",
    "hyperband": "Hyperband",
}
"""Maps each strategy to its name in SageMaker."""
MIN_RUNTIME_S = 120
"""Smallest MaxRuntimeInSeconds of a tuning job."""


def build_tuning_config(plan: PlanSpec, hyperparameters: Mapping[str, Any], trials: int, seed: int) -> dict[str, Any]:
    """Return HyperParameterTuningJobConfig.

    Args:
        plan: the plan.
        hyperparameters: values that all trials have; `num_round` among them is the largest resource of Hyperband.
        trials: number of trials. All points of a grid are tried: for it, the number only limits the parallel trials.
        seed: seed with which the hyperparameters of the trials are chosen.

    Raises:
        SpecError: a range has a step, and the strategy is not grid; or num_round is no number. A retry cannot help.
    """
    limits: dict[str, int] = {"MaxParallelTrainingJobs": min(plan.parallel, trials)}
    if plan.strategy != "grid":  # SageMaker counts the points of a grid itself
        limits["MaxNumberOfTrainingJobs"] = trials
    if plan.max_hours is not None:
        limits["MaxRuntimeInSeconds"] = max(MIN_RUNTIME_S, round(plan.max_hours * 3_600))
    config: dict[str, Any] = {
        "Strategy": STRATEGIES[plan.strategy],
        "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": METRIC_NAME},
        "ResourceLimits": limits,
        "ParameterRanges": build_parameter_ranges(plan.space, is_grid=plan.strategy == "grid"),
        "TrainingJobEarlyStoppingType": "Auto" if plan.early_stopping == "median" else "Off",
        "RandomSeed": seed,
    }
    if plan.strategy == "hyperband":
        rounds = get_num_round(hyperparameters)
        # SageMaker counts the lines with an objective: the script logs one after each round, and one at its end.
        bounds = {"MinResource": compute_first_rung(rounds), "MaxResource": rounds + 1}
        config["StrategyConfig"] = {"HyperbandStrategyConfig": bounds}
    return config


def build_parameter_ranges(space: CheckedSpace, *, is_grid: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return `ParameterRanges` of SageMaker's HyperParameterTuningJobConfig. SageMaker's ranges have no steps.

    Args:
        space: the search space.
        is_grid: whether the strategy is Grid, for which SageMaker accepts only categories.

    Raises:
        SpecError: a range has a step, and the strategy is not Grid. A retry cannot help.
    """
    ranges: dict[str, list[dict[str, Any]]] = {
        "IntegerParameterRanges": [],
        "ContinuousParameterRanges": [],
        "CategoricalParameterRanges": [],
    }
    for name, item in space.items():
        values = item.list_values() if isinstance(item, Range) else item
        if is_grid or not isinstance(item, Range):
            ranges["CategoricalParameterRanges"].append({"Name": name, "Values": [str(value) for value in values]})
            continue
        if item.step not in (None, 1.0) or (item.step and item.type == "float"):
            raise SpecError(f"space.{name}: SageMaker's ranges have no step.", "Give a list of values instead.")
        kind = "IntegerParameterRanges" if item.type == "int" else "ContinuousParameterRanges"
        low, high = (f"{int(bound)}" if item.type == "int" else repr(bound) for bound in (item.low, item.high))
        scaling = "Logarithmic" if item.log else "Linear"
        ranges[kind].append({"Name": name, "MinValue": low, "MaxValue": high, "ScalingType": scaling})
    return {kind: items for kind, items in ranges.items() if items}


def parse_values(space: CheckedSpace, texts: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of a trial, which SageMaker describes as texts, with the types of the space."""
    return {name: _parse_value(item, texts[name]) for name, item in space.items() if name in texts}


def _parse_value(item: Range | list[Value], text: str) -> Value:
    text = text.strip('"')  # SageMaker quotes the values of categories
    if isinstance(item, Range):
        return int(float(text)) if item.type == "int" else float(text)
    return next((value for value in item if str(value) == text), text)
