"""Convert a search space to Optuna's distributions."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from pipelines.tuning.space import CheckedSpace, Range


def build_distributions(space: CheckedSpace) -> dict[str, BaseDistribution]:
    """Map each hyperparameter to its distribution in Optuna, in the order of the space."""
    return {
        name: _build_numeric_distribution(item) if isinstance(item, Range) else CategoricalDistribution(item)
        for name, item in space.items()
    }


def _build_numeric_distribution(item: Range) -> BaseDistribution:
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
