"""Describe the fields of a step's Spec as options of its command, and read their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, get_args

import typer
import yaml
from pydantic.fields import FieldInfo

from pipelines.errors import SpecError
from pipelines.steps import STEPS, load_spec_class
from pipelines.system.strict_yaml import describe_yaml_error, load_yaml


def build_option(name: str, field: FieldInfo) -> Any:
    """Return typer's option for a field of a Spec."""
    default = "required" if field.is_required() else f"default: {field.get_default(call_default_factory=True)}"
    if name == "dataset" and field.is_required():
        default = "needed if the project has several datasets"
    return typer.Option(f"--{name.replace('_', '-')}", metavar="VALUE", help=f"{field.description} ({default})")


def complete_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with `true` after each boolean option that has no value, such as `--allow-shrink`."""
    if not arguments or arguments[0] not in STEPS:
        return list(arguments)
    fields = load_spec_class(arguments[0]).model_fields
    flags = {f"--{name.replace('_', '-')}" for name, field in fields.items() if _is_flag(field)}
    completed_arguments = []
    # The last argument is followed by the fill value "--", so that a boolean option at the end gets `true`, too.
    for argument, next_argument in zip_longest(arguments, arguments[1:], fillvalue="--"):
        completed_arguments += (
            [argument, "true"] if argument in flags and next_argument.startswith("--") else [argument]
        )
    return completed_arguments


def _is_flag(field: FieldInfo) -> bool:
    return bool in (field.annotation, *get_args(field.annotation))


def parse_value(name: str, text: str, field: FieldInfo) -> Any:
    """Parse a list or a mapping from JSON or YAML, as params.yaml has it. Any other value stays text.

    The value of a field for text stays text, too, even if it begins as a list or a mapping.

    Args:
        name: name of the field, for the error message.
        text: value on the command line.
        field: field of the Spec.

    Raises:
        SpecError: the text begins as a list or a mapping, and is neither JSON nor YAML, or a key occurs twice. A retry
            cannot help.
    """
    if not text.startswith(("[", "{")) or field.annotation is str:
        return text
    try:
        return json.loads(text, object_pairs_hook=_build_mapping)
    except ValueError:  # YAML, or wrong JSON; YAML's error has the line and the column
        pass
    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        reason = describe_yaml_error(error)
    except ValueError as error:
        reason = str(error)
    option = f"--{name.replace('_', '-')}"
    raise SpecError(f"{option}: {text[:80]} cannot be read as JSON or YAML: {reason}.", "Correct the value.")


def _build_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a mapping from the pairs of a JSON object, in which no key may occur twice."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key occurs twice")
    return mapping
