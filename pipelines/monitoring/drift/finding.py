"""Define the findings of one window, column by column. Importing this module loads no large library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BoundedMeasure = Literal[
    "psi",
    "js",
    "ks",
    "chi_square",
    "missing",
    "unseen",
    "label_rate",
    "auc",
    "brier",
    "log_loss",
    "ece",
    "estimated_auc",
    "mae",
    "estimated_mae",
    "estimated_rmse",
    "estimated_accuracy",
    "estimated_macro_auc",
    "recall",
    "estimated_recall",
    "estimated_precision",
]
"""Measures for which a policy can set a bound. The Wasserstein distance is not among them: it has no p-value, so it is
only reported."""
PERFORMANCE = "performance"
"""The `column` of findings about the model's performance; performance/CLASS for one class of a multiclass model."""
Measure = Literal[BoundedMeasure, "wasserstein", "missing_column"]
"""What a finding measures. `missing_column`: the column is missing in the window (effect 1) or in the reference
(effect None)."""


@dataclass(frozen=True)
class Finding:
    """One measure of one column. If it cannot be computed, the effect is None, never NaN, and `note` says why."""

    column: str
    """Name of a feature, of the score or of the label; `PERFORMANCE`, or `PERFORMANCE`/CLASS."""
    measure: Measure
    effect: float | None
    """Size of the change, in the unit of the measure (see docs/explanation/drift.md). 0 means no change."""
    p_value: float | None
    """Probability of such an effect or a larger one if nothing drifts. None if the effect was not tested or not
    computed."""
    weight: float = 1.0
    """Importance of the column, 0 to 1; 1 for scores, labels and performance."""
    note: str = ""
    """Remark, such as why there is no effect; empty if there is none."""


@dataclass(frozen=True)
class WindowResult:
    """All findings of a window."""

    day: str
    """Last day of the window, YYYY-MM-DD."""
    rows: int
    findings: tuple[Finding, ...]
