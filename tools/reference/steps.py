"""Build a reference page for each step, from the JSON Schema of its Spec and Result and from the docstrings."""

from __future__ import annotations

import inspect
import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core.core_schema import WithDefaultSchema

import pipelines.steps
from pipelines.contract import Result, Spec
from tools.reference.docstrings import parse_docstring
from tools.reference.markdown import format_code, format_prose, format_table

FOLDER = "reference/steps"
MAX_DEFAULT_LENGTH = 60
"""Longest default that a table shows, characters. A longer one is in params.yaml, or in the table of the field's type.
"""
LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "pattern": "matches",
}
"""Maps each limit in a JSON Schema to the words for it on the page."""


def find_steps() -> dict[str, ModuleType]:
    """Return the module of each step in pipelines/steps, by the step's name."""
    names = sorted(module.name for module in pkgutil.iter_modules(pipelines.steps.__path__))
    return {name: import_module(f"pipelines.steps.{name}") for name in names}


def build_pages() -> dict[str, str]:
    """Return a page for each step and an index page, by path."""
    modules = find_steps()
    pages = {f"{FOLDER}/{name}.md": build_page(name, module) for name, module in modules.items()}
    rows = [[f"[{name}]({name}.md)", format_prose(_get_summary(module))] for name, module in modules.items()]
    intro = "Each step is a command: `python -m pipelines STEP`. All follow [the step contract](../step-contract.md).\n"
    return {f"{FOLDER}/index.md": f"# Steps\n\n{intro}\n{format_table(['step', 'what it does'], rows)}", **pages}


def build_page(name: str, module: ModuleType) -> str:
    """Return the page of one step.

    Args:
        name: the step's name, which is also its command.
        module: the step's module.
    """
    spec, result = _find_class(module, Spec), _find_class(module, Result)
    sections = [
        f"# {name}\n\n{format_prose(inspect.getdoc(module) or '')}\n",
        f"```console\n$ python -m pipelines {name} --help\n```\n",
        *_render_class("Spec", spec, is_input=True),
        *_render_class("Result", result, is_input=False),
        *_render_errors(module),
        f"\nModule: `{module.__name__}`.\n",
    ]
    return "\n".join(sections)


def _get_summary(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").split("\n\n", 1)[0]


def _find_class(module: ModuleType, base: type[BaseModel]) -> type[BaseModel]:
    """Return the module's Spec or Result class, whose name begins with the name of the step."""
    suffix = base.__name__
    name = f"{pipelines.steps.get_class_prefix(module.__name__.rpartition('.')[2])}{suffix}"
    model: type[BaseModel] = getattr(module, name)
    return model


class SchemaWithDefaults(GenerateJsonSchema):
    """Generate a JSON Schema that also has the defaults that a `default_factory` makes, such as an empty list."""

    def get_default_value(self, schema: WithDefaultSchema) -> Any:
        """Return the default of a field, or what its `default_factory` makes."""
        factory = schema.get("default_factory")
        if factory is None or schema.get("default_factory_takes_data"):
            return schema.get("default", NoDefault)
        return factory()  # type: ignore[call-arg]


def _render_class(title: str, model: type[BaseModel], *, is_input: bool) -> Iterator[str]:
    schema = model.model_json_schema(mode="validation", schema_generator=SchemaWithDefaults)
    types = schema.get("$defs", {})
    yield f"## {title}\n\n{format_prose(schema.get('description', ''))}\n"
    yield _format_fields(schema, types, is_input=is_input) or "No fields.\n"
    for name, schema_part in types.items():
        if schema_part.get("properties"):
            yield f"### {title}: {name}\n\n{format_prose(schema_part.get('description', ''))}\n"
            yield _format_fields(schema_part, types, is_input=is_input)


def _format_fields(schema: dict[str, Any], types: dict[str, Any], *, is_input: bool) -> str:
    required_names = set(schema.get("required", ()))
    rows = [
        [
            format_code(name),
            _describe_type(schema_part),
            *([_format_default(name, schema_part, required_names)] if is_input else []),
            format_prose(
                schema_part.get("description") or types.get(_describe_type(schema_part), {}).get("description", "")
            ),
        ]
        for name, schema_part in schema.get("properties", {}).items()
    ]
    return format_table(["field", "type", *(["default"] if is_input else []), "meaning"], rows)


def _describe_type(schema_part: dict[str, Any]) -> str:
    """Return the type and the limits of a field in words, such as `list of string` or `integer, at least 1`."""
    values = {key: schema_part[key] for key in LIMITS if key in schema_part}
    limits = [f"{LIMITS[key]} {format_code(value) if key == 'pattern' else value}" for key, value in values.items()]
    return ", ".join([_describe_bare_type(schema_part), *limits])


def _describe_bare_type(schema_part: dict[str, Any]) -> str:
    if "$ref" in schema_part:
        return str(schema_part["$ref"]).rpartition("/")[2]
    if values := schema_part.get("enum") or ([schema_part["const"]] if "const" in schema_part else []):
        return ", ".join(format_code(value) for value in values)
    if options := schema_part.get("anyOf") or schema_part.get("oneOf") or schema_part.get("allOf"):
        return " or ".join(dict.fromkeys(_describe_type(option) for option in options))
    return _describe_container(schema_part) or str(schema_part.get("format") or schema_part.get("type") or "any")


def _describe_container(schema_part: dict[str, Any]) -> str:
    """Return the type of a list or a mapping; an empty string for all other types."""
    if schema_part.get("type") == "array":
        return f"list of {_describe_type(schema_part['items'])}" if schema_part.get("items") else "list"
    if schema_part.get("type") == "object":
        values = schema_part.get("additionalProperties")
        return f"mapping to {_describe_type(values)}" if isinstance(values, dict) else "mapping"
    return ""


def _format_default(name: str, schema_part: dict[str, Any], required: set[str]) -> str:
    if name in required:
        return "required"
    text = json.dumps(schema_part["default"]) if "default" in schema_part else ""
    return format_code(text) if 0 < len(text) <= MAX_DEFAULT_LENGTH else "see below" if text else "those of its fields"


def _render_errors(module: ModuleType) -> Iterator[str]:
    """Yield the errors that `run` raises, as its docstring lists them."""
    raises = parse_docstring(inspect.getdoc(module.run) or "").raises
    if raises:
        yield "## Errors\n"
        yield format_table(
            ["error", "when"], [[format_code(name), format_prose(text)] for name, text in raises.items()]
        )
