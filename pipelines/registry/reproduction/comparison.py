"""The comparison of a rebuilt version with its record: a list of checks, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Check(BaseModel):
    """A recorded value, and the value that was found when the version was rebuilt."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    what: str
    """File, metric or digest that was compared."""
    recorded: str
    """Value when the version was registered; empty where there was none."""
    found: str
    """Value now; empty where there is none."""
    note: str = ""
    """Details of a difference; empty where there are none."""

    @property
    def is_same(self) -> bool:
        """Whether the values are equal."""
        return self.recorded == self.found

    def describe(self) -> str:
        """Return the difference in words."""
        note = f" ({self.note})" if self.note else ""
        return f"{self.what} was {_shorten(self.recorded)}, is {_shorten(self.found)}{note}"


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
    """Differences that do not count as failures."""

    def compare(self, what: str, recorded: object, found: object, note: str = "") -> bool:
        """Add a check of two values; return whether they are equal."""
        check = Check(what=what, recorded=str(recorded), found=str(found), note=note)
        self.checks.append(check)
        return check.is_same

    def compare_all(
        self,
        what: str,
        recorded: Mapping[str, object],
        found: Mapping[str, object],
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Add a check of each name in either mapping; a missing value counts as empty."""
        for name in sorted({*recorded, *found}):
            self.compare(f"{what} {name}", recorded.get(name, ""), found.get(name, ""), (notes or {}).get(name, ""))


def _shorten(value: str) -> str:
    """Return the beginning of a SHA-256, "not there" for an empty value, and any other value unchanged."""
    return f"{value[:12]}…" if len(value) == 64 else value or "not there"
