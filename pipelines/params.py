"""Read the parameters of the steps: params.yaml, and models/NAME/params.yaml in a project that has models.

A file has one section per step, each with fields of that step's Spec. The values of a step are read only here. Some
modules of `versioning` and `tuning` read the files too: in the way DVC reads them, or to write the winner of a tuning
into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipelines.code_files import MODELS_FOLDER, PARAMS_FILE, get_model_file
from pipelines.errors import SpecError
from pipelines.steps import STEPS, load_spec_class
from pipelines.system.strict_yaml import describe_yaml_error, load_yaml

Sections = dict[str, dict[str, Any]]
STAGES = ("snapshot", "preprocess", "tune", "train", "evaluate", "gate")
"""Steps that are stages of dvc.yaml or of models/dvc.yaml. DVC reads the parameters of a stage from one file only: from
the model's file in a project with models, else from params.yaml."""


def load(folder: Path, model: str = "") -> Sections:
    """Read and check every section of `folder`/params.yaml. The keys of the model's file replace those of params.yaml.

    All sections are checked at once, so that a typo in the last step's section is found before the first step runs.

    Args:
        folder: folder of the project, or of a workspace.
        model: name of the model, whose file is `folder`/models/MODEL/params.yaml; empty: params.yaml alone. In a
            project without models/, params.yaml alone is used for every model.

    Returns:
        Maps each step name to the fields that the files set. Empty if there are no such files.

    Raises:
        SpecError: a file is not YAML, a key occurs twice, a section or a key is unknown, a value is wrong, a
            section of a stage is in params.yaml of a project that has models, or the project has models but not this
            one. A retry cannot help.
    """
    sections, names = _load_file(folder, PARAMS_FILE), list_model_names(folder)
    if names:
        _refuse_stages(sections, names)
    if not names or not model:
        return sections
    if model not in names:
        message = f"there is no model {model[:100]!r}: {get_model_file(model[:100])} does not exist."
        raise SpecError(message, f"The models are {', '.join(names)}.")
    return merge(sections, _load_file(folder, get_model_file(model)))


def list_model_names(folder: Path) -> list[str]:
    """List the models of a project, sorted by name. A model has a file `folder`/models/NAME/params.yaml."""
    return sorted(path.parent.name for path in (folder / MODELS_FOLDER).glob(f"*/{PARAMS_FILE}"))


def find_model_folder(folder: Path, model: str) -> Path:
    """Return the folder of a model's parameters and data; if the project has no models, the project itself.

    Raises:
        SpecError: the project has models, but `model` is empty or not one of them; or the parameters are not valid. A
            retry cannot help.
    """
    names = list_model_names(folder)
    if names and not model:
        raise SpecError("no model is named.", f"Give one of this project's models: {', '.join(names)}.")
    load(folder, model)
    return folder / MODELS_FOLDER / model if names else folder


def _refuse_stages(sections: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse the sections of `STAGES` in params.yaml of a project that has models: DVC would not read them there."""
    misplaced_sections = [name for name in STAGES if name in sections]
    if misplaced_sections:
        message = f"{PARAMS_FILE}: section {misplaced_sections[0]!r} belongs to a model, since the project has models."
        raise SpecError(message, f"Move it to {', '.join(map(get_model_file, names))}.")


def merge(sections: Mapping[str, Mapping[str, Any]], other_sections: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Merge sections key by key. If both have a key of a section, the value in `other_sections` is used."""
    return {name: {**sections.get(name, {}), **other_sections.get(name, {})} for name in {**sections, **other_sections}}


def load_section(folder: Path, step: str, model: str = "") -> dict[str, Any]:
    """Read the fields that the parameters set for one step; empty if they set none. Arguments: as for `load`.

    Raises:
        SpecError: a file of parameters is not YAML, a section of it (also of another step) is not valid, or the project
            does not have the model. A retry cannot help.
    """
    return load(folder, model).get(step, {})


def load_value(folder: Path, step: str, field: str, model: str = "") -> Any:
    """Read the value that the parameters set for a field of a step; the field's default if they set none.

    Raises:
        SpecError: a file of parameters is not YAML, a section of it (also of another step) is not valid, or the project
            does not have the model. A retry cannot help.
    """
    return load_section(folder, step, model).get(field, load_spec_class(step).model_fields[field].default)


def choose_dataset(sections: Mapping[str, Mapping[str, Any]], model: str, dataset: str = "") -> str:
    """Return the dataset of a model: the one in section `snapshot` of its parameters, or else `dataset`.

    Empty if there is neither.

    Args:
        sections: parameters of the model, as `load` returns them.
        model: name of the model, for the error message.
        dataset: dataset that the caller expects; empty if it expects none in particular.

    Raises:
        SpecError: `dataset` is given, and the parameters name another one. A retry cannot help.
    """
    own_dataset = str(sections.get("snapshot", {}).get("dataset", ""))
    if own_dataset and dataset not in ("", own_dataset):
        message = f"the parameters of {model} name the dataset {own_dataset}, but {dataset} is given."
        raise SpecError(message, "Correct one of them, or give no dataset.")
    return own_dataset or dataset


def _load_file(folder: Path, file_name: str) -> Sections:
    """Read and check the sections of a file; empty if it does not exist."""
    path = folder / file_name
    if not path.exists():
        return {}
    if not path.is_file():  # a pipe would be read for ever
        raise SpecError(f"{file_name} is not a file.", "Replace it by a YAML file.")
    sections = _read_sections(path, file_name)
    for step, section in sections.items():
        _check_section(file_name, step, section)
    return sections


def _read_sections(path: Path, file_name: str) -> dict[str, Any]:
    try:
        sections = load_yaml(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        separator = " " if getattr(error, "problem_mark", None) else ": "
        raise SpecError(f"{file_name}{separator}{describe_yaml_error(error)}.", "Correct the YAML there.") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{file_name}: not UTF-8 text ({error.reason}).", "Save the file as UTF-8.") from None
    except ValueError as error:  # PyYAML 6 converts dates and does not wrap their errors: 2013-02-30
        raise SpecError(f"{file_name}: a value is not valid ({error}).", "Correct the value.") from None
    if not isinstance(sections, dict):
        message = f"{file_name}: expected a mapping of step to its parameters, got {type(sections).__name__}."
        raise SpecError(message, "Write `STEP:`, and its keys below, indented.")
    return sections


def _check_section(file_name: str, step: str, section: Any) -> None:
    if step not in STEPS:
        raise SpecError(f"{file_name}: unknown section {step!r}.", f"Use one of: {', '.join(STEPS)}.")
    if not isinstance(section, dict):
        raise SpecError(f"{file_name}: section {step!r} must be a mapping of keys, got {type(section).__name__}.")
    # The command line may set fields that the file does not, such as a partition: a missing field is not an error here.
    load_spec_class(step).check(section, origin=f"{file_name}, section {step!r}")
