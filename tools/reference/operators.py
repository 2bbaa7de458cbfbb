"""Build a reference page for each operator, sensor and notifier, from its docstring and its constructor's signature.

The source is parsed, not imported: Airflow's import takes seconds and writes a configuration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.reference.docstrings import Docstring, parse_docstring
from tools.reference.markdown import format_code, format_prose, format_table

FOLDER = "reference/operators"
"""Folder of the pages, below docs/."""
PACKAGES = ("operators", "notifiers")
"""Packages of the provider that contain the classes."""
SUFFIXES = ("Operator", "Sensor", "Notifier")
"""Ends of the names of the classes."""


@dataclass(frozen=True)
class ProviderClass:
    """A class of the provider, parsed from its source."""

    module: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """The class's name."""
        return self.node.name

    @property
    def docstring(self) -> Docstring:
        """The parts of the class's docstring."""
        return parse_docstring(ast.get_docstring(self.node) or "")

    @property
    def bases(self) -> list[str]:
        """The names of the base classes."""
        return [ast.unparse(base) for base in self.node.bases]

    @property
    def step(self) -> str:
        """The step that the operator runs; empty if the class names none."""
        for statement in self.node.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "step":
                return str(ast.literal_eval(statement.value))
        return ""

    @property
    def arguments(self) -> Iterator[tuple[str, str, str]]:
        """Name, type and default of each argument of the class's own constructor."""
        for statement in self.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                for argument, default in zip(statement.args.kwonlyargs, statement.args.kw_defaults, strict=True):
                    type_text = ast.unparse(argument.annotation) if argument.annotation else ""
                    yield argument.arg, type_text, ast.unparse(default) if default else "required"


def find_classes(provider: Path) -> dict[str, ProviderClass]:
    """Return the public operators, sensors and notifiers of the provider, by name.

    Args:
        provider: folder of the package `leeway`.
    """
    classes = {}
    for path in (path for package in PACKAGES for path in sorted((provider / package).rglob("*.py"))):
        module = ".".join(path.relative_to(provider.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith(SUFFIXES) and not node.name.startswith("_"):
                classes[node.name] = ProviderClass(module, node)
    return classes


def build_pages(provider: Path) -> dict[str, str]:
    """Return a page for each class and an index page, by path."""
    classes = find_classes(provider)
    pages = {f"{FOLDER}/{name}.md": _build_page(class_, classes) for name, class_ in sorted(classes.items())}
    rows = [
        [
            f"[{name}]({name}.md)",
            _format_step_link(class_),
            format_prose(class_.docstring.text.split("\n\n")[0]),
        ]
        for name, class_ in sorted(classes.items())
    ]
    intro = "Operators, sensors and notifiers of the Airflow provider `leeway`. They run steps: see "
    intro += "[the step contract](../step-contract.md).\n"
    header = ["class", "step", "what it does"]
    return {f"{FOLDER}/index.md": f"# Operators\n\n{intro}\n{format_table(header, rows)}", **pages}


def _build_page(class_: ProviderClass, classes: dict[str, ProviderClass]) -> str:
    docstring = class_.docstring
    sections = [
        f"# {class_.name}\n\n```python\nfrom {class_.module} import {class_.name}\n```\n",
        f"{format_prose(docstring.text)}\n",
        f"Step: {_format_step_link(class_)}.\n" if class_.step else "",
        "## Arguments\n",
        format_table(["argument", "type", "default", "meaning"], _build_rows(class_, classes)) or "None of its own.\n",
        _describe_inherited_arguments(class_, classes),
        f"## Returns\n\n{format_prose(docstring.returns)}\n" if docstring.returns else "",
    ]
    return "\n".join(section for section in sections if section)


def _format_step_link(class_: ProviderClass) -> str:
    return f"[{class_.step}](../steps/{class_.step}.md)" if class_.step else ""


def _build_rows(class_: ProviderClass, classes: dict[str, ProviderClass]) -> Iterator[list[str]]:
    """Yield a row for each argument: first the class's own, then those of its base classes in the provider."""
    listed_names: set[str] = set()
    for declaring_class in (class_, *(classes[base] for base in class_.bases if base in classes)):
        meanings = {**declaring_class.docstring.arguments, **class_.docstring.arguments}
        for name, type_text, default in declaring_class.arguments:
            if name not in listed_names:
                listed_names.add(name)
                yield [
                    format_code(name),
                    format_code(type_text),
                    default if default == "required" else format_code(default),
                    meanings.get(name, ""),
                ]


def _describe_inherited_arguments(class_: ProviderClass, classes: dict[str, ProviderClass]) -> str:
    bases = dict.fromkeys(base for base in class_.bases if base not in classes and base.endswith(SUFFIXES))
    parents = ", ".join(format_code(base) for base in bases) or "`BaseOperator`"
    return f"It also takes the arguments of {parents}.\n"
