"""Make a page for each operator, sensor and notifier, of its docstring and its constructor's signature.

The source is parsed, not imported: Airflow's import takes seconds and writes a configuration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.reference.docstrings import Docstring, parse
from tools.reference.markdown import code, prose, table

FOLDER = "reference/operators"
PACKAGES = ("operators", "notifiers")
SUFFIXES = ("Operator", "Sensor", "Notifier")


@dataclass(frozen=True)
class Class:
    """A class of the provider, as its source has it."""

    module: str
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """The class's name."""
        return self.node.name

    @property
    def docstring(self) -> Docstring:
        """The parts of its docstring."""
        return parse(ast.get_docstring(self.node) or "")

    @property
    def bases(self) -> list[str]:
        """The names of its base classes."""
        return [ast.unparse(base) for base in self.node.bases]

    @property
    def step(self) -> str:
        """The step that it runs; empty where it names none."""
        for part in self.node.body:
            if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "step":
                return str(ast.literal_eval(part.value))
        return ""

    @property
    def arguments(self) -> Iterator[tuple[str, str, str]]:
        """Name, type and default of each argument of its own constructor."""
        for part in self.node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                for argument, default in zip(part.args.kwonlyargs, part.args.kw_defaults, strict=True):
                    kind = ast.unparse(argument.annotation) if argument.annotation else ""
                    yield argument.arg, kind, ast.unparse(default) if default else "required"


def find_classes(provider: Path) -> dict[str, Class]:
    """Return the public operators, sensors and notifiers of the provider, by name.

    Args:
        provider: folder of the package `leeway`.
    """
    classes = {}
    for path in (path for package in PACKAGES for path in sorted((provider / package).rglob("*.py"))):
        module = ".".join(path.relative_to(provider.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith(SUFFIXES) and not node.name.startswith("_"):
                classes[node.name] = Class(module, node)
    return classes


def build_pages(provider: Path) -> dict[str, str]:
    """Return a page for each class and one that lists them, by path."""
    classes = find_classes(provider)
    pages = {f"{FOLDER}/{name}.md": _page(found, classes) for name, found in sorted(classes.items())}
    rows = [
        [f"[{name}]({name}.md)", _step_link(found), prose(found.docstring.text.split("\n\n")[0])]
        for name, found in sorted(classes.items())
    ]
    intro = "Operators, sensors and notifiers of the Airflow provider `leeway`. They run steps: see "
    intro += "[the step contract](../step-contract.md).\n"
    header = ["class", "step", "what it does"]
    return {f"{FOLDER}/index.md": f"# Operators\n\n{intro}\n{table(header, rows)}", **pages}


def _page(found: Class, classes: dict[str, Class]) -> str:
    described = found.docstring
    parts = [
        f"# {found.name}\n\n```python\nfrom {found.module} import {found.name}\n```\n",
        f"{prose(described.text)}\n",
        f"Step: {_step_link(found)}.\n" if found.step else "",
        "## Arguments\n",
        table(["argument", "type", "default", "meaning"], _rows(found, classes)) or "None of its own.\n",
        _inherited(found, classes),
        f"## Returns\n\n{prose(described.returns)}\n" if described.returns else "",
    ]
    return "\n".join(part for part in parts if part)


def _step_link(found: Class) -> str:
    return f"[{found.step}](../steps/{found.step}.md)" if found.step else ""


def _rows(found: Class, classes: dict[str, Class]) -> Iterator[list[str]]:
    """Yield a row for each argument, those of our own base classes after the class's own."""
    seen: set[str] = set()
    for owner in (found, *(classes[base] for base in found.bases if base in classes)):
        meanings = {**owner.docstring.arguments, **found.docstring.arguments}
        for name, kind, default in owner.arguments:
            if name not in seen:
                seen.add(name)
                yield [
                    code(name),
                    code(kind),
                    default if default == "required" else code(default),
                    meanings.get(name, ""),
                ]


def _inherited(found: Class, classes: dict[str, Class]) -> str:
    bases = dict.fromkeys(base for base in found.bases if base not in classes and base.endswith(SUFFIXES))
    parents = ", ".join(code(base) for base in bases) or "`BaseOperator`"
    return f"It also takes the arguments of {parents}.\n"
