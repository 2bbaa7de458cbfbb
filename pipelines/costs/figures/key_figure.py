"""Define a key figure: its value, its target, and how it is computed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Unit = Literal["share", "seconds", "usd", "per week"]


class KeyFigure(BaseModel):
    """One key figure of the platform."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    """Short name, such as gpu_use."""
    title: str
    """Name for people."""
    unit: Unit
    """Unit of value and target. A share is from 0 to 1."""
    value: float | None
    """The value; null if it is not known."""
    target: float | None
    """The target; null if there is none."""
    is_minimum: bool
    """Whether the value must be at least the target; otherwise at most."""
    is_met: bool | None
    """Whether the target is met; null if the value is not known, or if there is no target."""
    jobs: int
    """Number of jobs from which the value was computed; for a figure about experiments, number of experiments."""
    method: str
    """How the value is computed, in a sentence."""
    reason: str
    """Why the value is not known; empty if it is known."""

    def format_value(self) -> str:
        """Format the value with its unit; `not known` if there is none."""
        return "not known" if self.value is None else self._format(self.value)

    def format_target(self) -> str:
        """Format the target with its unit; empty if there is none."""
        return "" if self.target is None else f"{'>=' if self.is_minimum else '<='} {self._format(self.target)}"

    def format_outcome(self) -> str:
        """Return `met`, `not met`, or an empty text if the value is not known or there is no target."""
        return "" if self.is_met is None else "met" if self.is_met else "not met"

    def _format(self, number: float) -> str:
        if self.unit == "share":
            return f"{100 * number:.1f} %"
        if self.unit == "usd":
            return f"{number:,.4f} USD" if number < 1 else f"{number:,.2f} USD"
        if self.unit == "seconds":
            return f"{number:,.0f} s" if number < 600 else f"{number / 60:,.1f} min"
        return f"{number:,.2f} a week"
