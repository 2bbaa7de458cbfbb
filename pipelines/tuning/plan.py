"""Define the plan of a search for hyperparameters: the keys of section `tune` of params.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pipelines.contract import Spec
from pipelines.parameters import MAX_DAYS
from pipelines.tuning.space import Space, list_grid_values

Strategy = Literal["bayesian", "random", "grid", "hyperband"]
"""How trials are proposed. bayesian: from the results so far (tree-structured Parzen estimator); random: at random;
grid: each point of a grid once; hyperband: as bayesian, and Hyperband stops poor trials after few rounds."""
MAX_HOURS = 4_380
"""Longest duration of a tuning job on SageMaker, hours: 15,768,000 s (HyperParameterTuningMaxRuntimeInSeconds)."""


class PlanSpec(Spec):
    """The space of a search, its strategy and its limits."""

    prerequisites: ClassVar[Mapping[str, str]] = {"instance_type": "budget_usd", "region": "budget_usd"}

    space: Space
    """For each hyperparameter a range, such as {low: 3, high: 10, type: int} or {low: 0.01, high: 0.3, log: true}, or a
    list of values. A searched hyperparameter overrides its value in section `train`."""
    strategy: Strategy = "bayesian"
    """bayesian (proposals learn from the results), random, grid (each point of the space once), or hyperband (bayesian,
    and poor trials are stopped after few rounds)."""
    early_stopping: Literal["none", "median"] = "none"
    """median: stop a trial that is worse than half of the earlier trials were after the same number of rounds."""
    trials: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Number of trials. After a larger number is set, a finished search continues."""
    parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of trials that run at the same time; on this machine, they share its cores."""
    folds: Annotated[int, Field(ge=1, le=100)] = 3
    """Number of walk-forward folds; the objective is their mean loss."""
    fold_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 7
    """Number of days that each fold validates on."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 13
    """Seed of the proposals. With parallel 1, equal plans give equal trials."""
    max_hours: Annotated[float, Field(gt=0, le=MAX_HOURS)] | None = None
    """Hours after which no further trial is started; null: no limit. On this machine, the time of all runs of the
    search counts, and running trials are not stopped; SageMaker stops them."""
    max_trial_s: Annotated[int, Field(ge=1, le=30 * 86_400)] = 3_600
    """Seconds after which a trial is stopped and counts as failed."""
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    """Largest total cost of the trials, USD; null: no limit. Trials on this machine cost nothing; but a budget that
    does not pay for one trial of `max_trial_s` is refused here, too."""
    instance_type: str = "ml.m5.large"
    """Instance type of a trial on SageMaker. `budget_usd` is checked with its price."""
    region: str = "us-east-1"
    """AWS region whose prices are used with `budget_usd`."""
    warm_start: str = ""
    """Name of an earlier search on this machine, a folder with its trials.csv, or the id of its MLflow run. The
    strategy learns from its completed trials inside the space. They are not part of `trials`, and none of them can be
    the winner."""

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse booleans as every Spec does, except in the space, which has its own checks: `log` is a boolean."""
        return value if info.field_name == "space" else super()._refuse_booleans(value, info)

    @model_validator(mode="after")
    def _check_strategy(self) -> Self:
        if self.strategy == "hyperband" and self.early_stopping != "none":
            raise ValueError("hyperband stops trials itself: early_stopping must be none")
        if self.strategy == "hyperband" and "num_round" in self.space:
            raise ValueError("hyperband decides how many rounds a trial gets: num_round cannot be in the space")
        if self.strategy == "grid":
            if self.warm_start:
                raise ValueError("a grid does not learn from earlier trials: leave warm_start out")
            points = math.prod(map(len, list_grid_values(self.space).values()))
            if points > self.trials:
                raise ValueError(
                    f"the grid has {points:,} points, and trials is {self.trials}: raise it, or drop values"
                )
        return self

    def count_trials(self) -> int:
        """Return the number of trials of the whole search: for a grid, the number of its points."""
        if self.strategy == "grid":
            return math.prod(map(len, list_grid_values(self.space).values()))
        return self.trials
