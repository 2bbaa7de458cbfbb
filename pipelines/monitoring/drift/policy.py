"""When drift is an alarm: a section of params.yaml."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.monitoring.drift.finding import Decisive

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

BOUNDS: dict[Decisive, float] = {
    "psi": 0.10,
    "missing": 0.05,
    "unseen": 0.02,
    "label_rate": 0.05,
    "auc": 0.03,
    "estimated_auc": 0.03,
}
ENDLESS = ("psi", "log_loss")
"""Measures that may be more than 1; all others are shares, or differences of them."""


class Policy(BaseModel):
    """When drift is an alarm. What it does not know is refused: a misspelt bound would guard nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    false_alarms_per_year: Positive = 0.5
    """Most false alarms that are expected in a year on data that does not drift."""
    windows_per_year: Count = 365
    """How often is decided."""
    bounds: Annotated[dict[Decisive, Positive], Field(min_length=1)] = BOUNDS
    """Least effect that matters, by measure. A measure without a bound is told, and decides nothing."""
    at_least: Count = 3
    """A column alarms when it is over its bound in so many ..."""
    of_last: Count = 5
    """... of the last so many windows that had rows enough."""
    release: Annotated[float, Field(gt=0, le=1)] = 0.5
    """An alarm ends when the effect is below this share of the bound (hysteresis)."""
    min_rows: Count = 1_000
    """Windows of fewer rows decide nothing, nor does performance of fewer labelled rows."""
    min_weight: Share = 0.02
    """Importance that the alarming columns must have together: an unimportant one does not alarm by itself."""

    @property
    def alpha(self) -> float:
        """Chance of a false finding that each window may have: over a year they add up to what is allowed."""
        return self.false_alarms_per_year / self.windows_per_year

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if beyond := [name for name, bound in self.bounds.items() if bound > 1 and name not in ENDLESS]:
            raise ValueError(f"{beyond[0]} is never more than 1, so its bound would guard nothing")
        if self.at_least > self.of_last:
            raise ValueError(f"at_least is {self.at_least}, more than of_last, {self.of_last}")
        if self.alpha >= 0.5:
            raise ValueError(
                f"{self.false_alarms_per_year} false alarms of {self.windows_per_year} windows is no control"
            )
        return self
