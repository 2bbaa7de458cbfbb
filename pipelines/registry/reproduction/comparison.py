"""Collect the comparison of a rebuilt version with its record: a list of checks, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """A recorded value of a version, and the value of the rebuilt version."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    name: str
    """File, metric or digest that was compared."""
    recorded_value: str
    """Value when the version was registered; empty if there was none."""
    rebuilt_value: str
    """Value after rebuilding; empty if there is none."""
    note: str = ""
    """Details of a difference; empty if there are none."""

    @property
    def is_same(self) -> bool:
        """Whether the values are equal."""
        return self.recorded_value == self.rebuilt_value

    def describe(self) -> str:
        """Return the difference in words."""
        note = f" ({self.note})" if self.note else ""
        return f"{self.name} was {_shorten(self.recorded_value)}, is {_shorten(self.rebuilt_value)}{note}"


@dataclass
class Comparison:
    """A rebuilt version, and how it compares with its record."""

    name: str
    """Registered model."""
    version: str
    """Number of the version."""
    workspace: Path = Path()
    """Folder that the version was rebuilt in."""
    git_commit: str = ""
    """Commit of the version's code, as recorded."""
    checks: list[Check] = field(default_factory=list)
    """Everything that was compared, in order."""
    notes: list[str] = field(default_factory=list)
    """Differences that are no failures, such as other versions of libraries."""

    def compare(self, name: str, recorded_value: object, rebuilt_value: object, note: str = "") -> bool:
        """Add a check of two values; return whether they are equal."""
        check = Check(name=name, recorded_value=str(recorded_value), rebuilt_value=str(rebuilt_value), note=note)
        self.checks.append(check)
        return check.is_same

    def compare_all(
        self,
        kind: str,
        recorded_values: Mapping[str, object],
        rebuilt_values: Mapping[str, object],
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Add one check for each name in the mappings. The name of the check is `kind`, a space and the name.

        If a mapping lacks the name, its value is an empty text.
        """
        for name in sorted({*recorded_values, *rebuilt_values}):
            note = (notes or {}).get(name, "")
            self.compare(f"{kind} {name}", recorded_values.get(name, ""), rebuilt_values.get(name, ""), note)


def _shorten(value: str) -> str:
    """Return the beginning of a SHA-256, "not there" for an empty value, and any other value unchanged."""
    return f"{value[:12]}…" if len(value) == 64 else value or "not there"
