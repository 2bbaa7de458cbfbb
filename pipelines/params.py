"""Read params.yaml: one section per step, each with fields of that step's Spec. No other module reads the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipelines.errors import SpecError
from pipelines.settings import PARAMS_FILE
from pipelines.steps import STEPS, load_spec_class


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Read and check every section of `folder`/params.yaml.

    All sections are checked at once, so that a typo in the last step's section is found before the first step runs.

    Returns:
        Step name to the fields that the file sets. Empty where there is no such file.

    Raises:
        SpecError: the file is not YAML, a section or a key is unknown, or a value is wrong. A retry cannot help.
    """
    path = folder / PARAMS_FILE
    if not path.exists():
        return {}
    sections = _read_sections(path)
    for name, section in sections.items():
        _check_section(path, name, section)
    return sections


def load_section(folder: Path, step: str) -> dict[str, Any]:
    """Read the fields that `folder`/params.yaml sets for one step; empty where it sets none.

    Raises:
        SpecError: as `load` does, for any section of the file. A retry cannot help.
    """
    return load(folder).get(step, {})


def load_value(folder: Path, step: str, field: str) -> Any:
    """Read the value that `folder`/params.yaml sets for a field of a step; the field's default where it sets none.

    Raises:
        SpecError: as `load` does. A retry cannot help.
    """
    return load_section(folder, step).get(field, load_spec_class(step).model_fields[field].default)


def _read_sections(path: Path) -> dict[str, Any]:
    try:
        sections = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid"
        raise SpecError(f"{path.name}{place}: {problem}.", "Correct the YAML there.") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path.name}: not UTF-8 text ({error.reason}).", "Save the file as UTF-8.") from None
    except ValueError as error:  # PyYAML 6 converts dates and does not wrap their errors: 2013-02-30
        raise SpecError(f"{path.name}: a value is not valid ({error}).", "Correct the value.") from None
    if not isinstance(sections, dict):
        message = f"{path.name}: expected a mapping of step to its parameters, got {type(sections).__name__}."
        raise SpecError(message, "Write `STEP:`, and its keys below, indented.")
    return sections


def _check_section(path: Path, name: str, section: Any) -> None:
    if name not in STEPS:
        raise SpecError(f"{path.name}: unknown section {name!r}.", f"Known: {', '.join(STEPS)}.")
    if not isinstance(section, dict):
        raise SpecError(f"{path.name}: section {name!r} must be a mapping of keys, got {type(section).__name__}.")
    # The command line may set fields that the file does not, such as a partition: a missing field is not an error here.
    load_spec_class(name).check(section, origin=f"{path.name}, section {name!r}")
