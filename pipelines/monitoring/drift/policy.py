"""Define the policy that says which drift is an alarm: key `policy` in the section `drift` of params.yaml."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from pipelines.monitoring.drift.finding import BoundedMeasure
from pipelines.parameters import Parameters

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

BOUNDS: dict[BoundedMeasure, float] = {
    "psi": 0.10,
    "missing": 0.05,
    "unseen": 0.02,
    "label_rate": 0.05,
    "auc": 0.03,
    "estimated_auc": 0.03,
    "mae": 0.10,
    "estimated_mae": 0.10,
    "estimated_accuracy": 0.05,
    "estimated_macro_auc": 0.03,
    "recall": 0.10,
    "estimated_recall": 0.10,
}
"""Default of `Policy.bounds`."""
CAN_EXCEED_1 = ("psi", "log_loss", "mae", "estimated_mae", "estimated_rmse")
"""Measures whose effect may exceed 1. The effects of all other measures with a bound are at most 1."""


class Policy(Parameters):
    """The conditions of a drift alarm. An unknown key is refused, since a misspelt bound would have no effect."""

    false_alarms_per_year: Positive = 0.5
    """Highest expected number of false alarms in a year, on data that does not drift."""
    windows_per_year: Count = 365
    """Number of decisions in a year."""
    bounds: Annotated[dict[BoundedMeasure, Positive], Field(min_length=1)] = BOUNDS
    """Maps each measure to the smallest effect that is treated as drift. A measure without a bound is only reported."""
    at_least: Count = 3
    """Smallest number of windows, among the last `of_last`, in which a column must be significantly over a bound before
    its alarm begins. The newest window must be one of them."""
    of_last: Count = 5
    """Number of the newest windows among which `at_least` must be over a bound. Windows with fewer than `min_rows` rows
    are not counted."""
    end_below: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the bound: the alarm of a column ends when all its effects are below this share of their bounds
    (hysteresis)."""
    min_rows: Count = 1_000
    """Smallest number of rows of a window with which a decision is made, and of labelled rows with which a measured
    loss of performance can cause an alarm."""
    min_weight: Share = 0.02
    """Smallest total importance of the columns whose alarms would begin. Columns with a smaller total start no alarm:
    one unimportant column is not enough."""

    @property
    def alpha(self) -> float:
        """Highest probability of a false finding in a window: the allowed false alarms, divided by the windows."""
        return self.false_alarms_per_year / self.windows_per_year

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if ineffective_names := [name for name, bound in self.bounds.items() if bound > 1 and name not in CAN_EXCEED_1]:
            raise ValueError(f"{ineffective_names[0]} never exceeds 1, so its bound would have no effect")
        if self.at_least > self.of_last:
            raise ValueError(f"at_least is {self.at_least}, more than of_last, {self.of_last}")
        if self.alpha >= 0.5:
            raise ValueError(
                f"{self.false_alarms_per_year} false alarms in {self.windows_per_year} windows is too many to control"
            )
        return self
