"""Convert a search space to Optuna's distributions, and to the parameter ranges of a SageMaker tuning job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from pipelines.errors import SpecError
from pipelines.tuning.space import Range, Value

Space = Mapping[str, Range | list[Value]]


def build_distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return hyperparameter to Optuna's distribution, in the order of the space."""
    return {
        name: _build_number(item) if isinstance(item, Range) else CategoricalDistribution(item)
        for name, item in space.items()
    }


def _build_number(item: Range) -> BaseDistribution:
    if item.type == "int":
        return IntDistribution(int(item.low), int(item.high), log=item.log, step=int(item.step or 1))
    return FloatDistribution(item.low, item.high, log=item.log, step=item.step)


def suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    """Return a trial's value of a hyperparameter; if it has none yet, propose one."""
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        bounds = (distribution.low, distribution.high)
        return trial.suggest_int(name, *bounds, step=distribution.step, log=distribution.log)
    assert isinstance(distribution, FloatDistribution)
    return trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def build_parameter_ranges(space: Space, *, grid: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return `ParameterRanges` of SageMaker's HyperParameterTuningJobConfig. Its ranges have no steps.

    Args:
        space: the search space.
        grid: whether the strategy is Grid, for which SageMaker accepts only categories.

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
        if grid or not isinstance(item, Range):
            ranges["CategoricalParameterRanges"].append({"Name": name, "Values": [str(value) for value in values]})
            continue
        if item.step not in (None, 1.0) or (item.step and item.type == "float"):
            raise SpecError(f"space.{name}: SageMaker's ranges have no step.", "Give a list of values instead.")
        kind = "IntegerParameterRanges" if item.type == "int" else "ContinuousParameterRanges"
        low, high = (f"{int(bound)}" if item.type == "int" else repr(bound) for bound in (item.low, item.high))
        scaling = "Logarithmic" if item.log else "Linear"
        ranges[kind].append({"Name": name, "MinValue": low, "MaxValue": high, "ScalingType": scaling})
    return {kind: items for kind, items in ranges.items() if items}
