"""Write the winner of a tuning into the parameters of its model. Other values and all comments stay as they are."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import DataError, SpecError
from pipelines.system.files import read_json, replace_file
from pipelines.tuning.record import TuningRecord
from pipelines.tuning.warm_start import BEST_FILE

DIGITS = 6
"""Decimals of the losses in the parameters."""


def read_winner(folder: Path) -> TuningRecord:
    """Read the winner from the folder that the step `tune` wrote.

    Raises:
        DataError: the folder has no best.json that can be read. A retry cannot help.
    """
    content = read_json(folder / BEST_FILE, "the step `tune` writes it when its trials have ended")
    try:
        return TuningRecord.model_validate(
            {name: content[name] for name in TuningRecord.model_fields if name in content}
        )
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{folder / BEST_FILE} is not a result of a tuning.", "The step `tune` writes it.") from None


def apply_winner(params_file: Path, winner: TuningRecord) -> dict[str, tuple[Any, Any]]:
    """Write the winner's hyperparameters, and the record of the tuning, into section `train` of a file of parameters.

    Comments, quotes and the order of the keys are kept. Idempotent.

    Args:
        params_file: models/NAME/params.yaml; in a project without models, params.yaml.
        winner: what `read_winner` returned.

    Returns:
        Maps each changed hyperparameter to its old value (None if it had none) and its new value.

    Raises:
        SpecError: the file does not exist or is not YAML, or its section `train` is not a mapping. A retry cannot help.
    """
    yaml = _make_yaml()
    content = _read_params(params_file, yaml)
    section = _get_mapping(content, "train", params_file)
    hyperparameters = _get_mapping(section, "hyperparameters", params_file)
    changes = {
        name: (hyperparameters.get(name), value)
        for name, value in winner.hyperparameters.items()
        if hyperparameters.get(name) != value
    }
    for name, (_, value) in changes.items():
        _set_value(hyperparameters, name, value)
    _set_value(section, "tuning", _build_entry(winner))
    text = io.StringIO()
    yaml.dump(content, text)
    with replace_file(params_file) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
    return changes


def _make_yaml() -> Any:
    """Make a reader and writer of YAML that keeps comments and quotes."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        """Write each float so that DVC, which reads YAML 1.1, reads a float: 1.0e-05, and not 1e-05."""

    def represent_float(representer: Any, value: float) -> Any:
        mantissa, exponent_mark, exponent = repr(value).partition("e")
        text = f"{mantissa}.0e{exponent}" if exponent_mark and "." not in mantissa else repr(value)
        return representer.represent_scalar("tag:yaml.org,2002:float", text)

    Representer.add_representer(float, represent_float)
    yaml = YAML()
    yaml.Representer, yaml.preserve_quotes, yaml.width = Representer, True, 4_096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _read_params(params_file: Path, yaml: Any) -> Any:
    """Read the mapping in a file of parameters, with its comments."""
    from ruamel.yaml.error import YAMLError

    try:
        content = yaml.load(params_file.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise SpecError(f"{params_file} does not exist.", "Name a model of the project.") from None
    except (YAMLError, ValueError) as error:
        raise SpecError(f"{params_file} is not YAML: {' '.join(str(error).split())}.", "Correct the file.") from None
    if not isinstance(content, Mapping):
        raise SpecError(f"{params_file} is not a mapping of sections.", "Correct the file.")
    return content


def _get_mapping(content: Any, name: str, origin: Path) -> Any:
    """Return a mapping inside a mapping; create it if it is missing or empty."""
    if content.get(name) is None:
        content[name] = {}
    value = content[name]
    if not isinstance(value, Mapping):
        raise SpecError(f"{origin}: {name} is not a mapping.", "Correct the file.")
    return value


def _set_value(mapping: Any, key: str, value: Any) -> None:
    """Set a value. A new key becomes the first.

    As the last key, it would come after the empty line that separates the mapping from the next section: ruamel.yaml
    keeps this line with the key before it.
    """
    if key in mapping:
        mapping[key] = value
    elif hasattr(mapping, "insert"):
        mapping.insert(0, key, value)
    else:  # a plain dict, because the mapping was not in the file
        mapping[key] = value


def _build_entry(winner: TuningRecord) -> Any:
    """Build the entry `tuning` of the file, with lists and mappings on one line each."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq

    losses, values = CommentedSeq(round(loss, DIGITS) for loss in winner.fold_losses), winner.hyperparameters
    hyperparameters = CommentedMap(values)
    for item in (losses, hyperparameters):
        item.fa.set_flow_style()
    entry = {**winner.model_dump(), "objective": round(winner.objective, DIGITS)}
    return CommentedMap({**entry, "fold_losses": losses, "hyperparameters": hyperparameters})
