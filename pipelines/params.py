"""The one reader of params.yaml: a section a step, each holding fields of that step's Spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipelines.errors import SpecError
from pipelines.steps import STEPS, spec_of

FILE = "params.yaml"


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Every section of `folder`/params.yaml, checked whole, so that a typo in the last step shows before the first.

    Returns:
        Step name to the fields that the file sets. Empty where there is no such file.

    Raises:
        SpecError: the file is not YAML, or a section or a key is unknown, or a value is wrong. A retry cannot help.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    sections = _read(path)
    for name, section in sections.items():
        _check(path, name, section)
    return sections


def section(folder: Path, step: str) -> dict[str, Any]:
    """What params.yaml sets of one step's Spec.

    Raises:
        SpecError: as `load` does.
    """
    return load(folder).get(step, {})


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid"
        raise SpecError(f"{path.name}{where}: {problem}.", "Mend the YAML there.") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path.name}: not UTF-8 text ({error.reason}).", "Save the file as UTF-8.") from None
    except ValueError as error:  # PyYAML 6 makes dates itself, and lets their errors through: 2013-02-30
        raise SpecError(f"{path.name}: a value is not valid ({error}).", "Mend the value.") from None
    if not isinstance(loaded, dict):
        raise SpecError(f"{path.name}: a mapping of step to its parameters is wanted, got {type(loaded).__name__}.")
    return loaded


def _check(path: Path, name: str, section: Any) -> None:
    if name not in STEPS:
        raise SpecError(f"{path.name}: unknown section {name!r}.", f"Known: {', '.join(STEPS)}.")
    if not isinstance(section, dict):
        raise SpecError(f"{path.name}: section {name!r} must be a mapping of keys, got {type(section).__name__}.")
    # What the file leaves to the command line (a partition, say) is not its fault: only what it sets is checked.
    spec_of(name).check(section, origin=f"{path.name}, section {name!r}")
