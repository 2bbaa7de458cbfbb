"""Describe the fields of a step's Spec as options of its command, and read their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, get_args

import typer
from pydantic.fields import FieldInfo

from pipelines.errors import SpecError
from pipelines.steps import STEPS, load_spec_class


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
    for argument, next_argument in zip_longest(arguments, arguments[1:], fillvalue="--"):
        completed_arguments += (
            [argument, "true"] if argument in flags and next_argument.startswith("--") else [argument]
        )
    return completed_arguments


def _is_flag(field: FieldInfo) -> bool:
    return bool in (field.annotation, *get_args(field.annotation))


def parse_value(text: str, field: FieldInfo) -> Any:
    """Parse a list or a mapping from JSON; any other value stays text.

    Raises:
        SpecError: the text begins as JSON, and is not JSON. A retry cannot help.
    """
    if text.startswith(("[", "{")) and field.annotation is not str:
        try:
            return json.loads(text)
        except ValueError as error:
            raise SpecError(f"{text[:80]} is not JSON: {error}.") from None
    return text
