"""What was found in one window: the findings of its columns, and the window that they are of. Loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decisive = Literal[
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
]
"""Measures that have a p-value; Wasserstein has none, and is told only."""
Measure = Literal[Decisive, "wasserstein", "vanished"]


@dataclass(frozen=True)
class Finding:
    """One measure of one column. Never NaN: what cannot be measured is None, and `note` says why."""

    column: str
    measure: Measure
    effect: float | None
    """How large the change is, in the measure's own unit: 0 is none; see docs/explanation/drift.md."""
    p_value: float | None
    """How likely so large an effect is where nothing drifts; None: the measure has no test."""
    weight: float = 1.0
    """Importance of the column, a share of all; 1 for scores, labels and performance."""
    note: str = ""


@dataclass(frozen=True)
class WindowResult:
    """All findings of a window."""

    day: str
    """The window's last day, ISO."""
    rows: int
    findings: tuple[Finding, ...]
