"""Define a notice: a fact about the costs of a project. People are notified of it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Notice(BaseModel):
    """A fact about the costs of a project. People are notified of it once."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    kind: Literal["threshold", "forecast", "anomaly"]
    """What happened."""
    project: str
    """Project that pays."""
    subject: str
    """Month of the budget, YYYY-MM, or day of the anomaly, YYYY-MM-DD."""
    budget_usd: float | None = None
    """Budget, USD; null for an anomaly. If the budget changes, people are notified again."""
    threshold_percent: int = 0
    """Threshold that was reached, percent; 0 for a forecast or an anomaly."""
    text: str
    """The notice in a sentence."""

    def is_covered_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether a stored notice has this kind, project, subject and budget, and at least this threshold."""
        names = ("kind", "project", "subject", "budget_usd")
        is_same = all(getattr(self, name) == row[name] for name in names)
        return bool(is_same and row["threshold_percent"] >= self.threshold_percent)
