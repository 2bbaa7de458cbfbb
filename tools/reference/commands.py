"""Make the page of the command lines: `python -m pipelines`, `python -m drydock`, `python -m stack` and make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from drydock.__main__ import app as drydock
from pipelines.cli.app import build_app
from stack.cli import app as stack
from tools.reference.markdown import code, prose, table
from tools.reference.steps import find_steps

TARGET = re.compile(r"^([a-z-]+):.*?## (.+)$", re.MULTILINE)


def load_programs() -> dict[str, Any]:
    """Return the command line of each program, as click's command, by the program's name."""
    apps = {"pipelines": build_app(), "drydock": drydock, "stack": stack}
    return {name: typer.main.get_command(app) for name, app in apps.items()}


def build_page(root: Path) -> str:
    """Return the page of all commands.

    Args:
        root: folder of the project, which has the Makefile.
    """
    parts = ["# Commands\n", *_make(root)]
    for name, program in load_programs().items():
        parts.append(f"## python -m {name}\n\n{_help(program)}\n")
        parts += _group(f"python -m {name}", program, skipped=set(find_steps()) if name == "pipelines" else set())
    return "\n".join(parts)


def _make(root: Path) -> Iterator[str]:
    rows = [[code(f"make {name}"), prose(text)] for name, text in TARGET.findall((root / "Makefile").read_text())]
    yield "## make\n"
    yield table(["target", "what it does"], rows)


def _group(prefix: str, group: Any, skipped: set[str]) -> Iterator[str]:
    """Yield the options of a program and a section for each of its commands."""
    yield _parameters(group)
    if skipped:
        yield "A command for each [step](steps/index.md), and the commands below.\n"
    for name, command in getattr(group, "commands", {}).items():
        if name in skipped:
            continue
        if getattr(command, "commands", None):
            yield f"### {name}\n\n{_help(command)}\n"
            yield from _group(f"{prefix} {name}", command, skipped=set())
        else:
            yield f"#### {prefix} {name}\n\n{_help(command)}\n"
            yield _parameters(command)


def _parameters(command: Any) -> str:
    rows = [
        [_name(parameter), prose(getattr(parameter, "help", "") or ""), _default(parameter)]
        for parameter in command.params
        if parameter.name != "help"
    ]
    return table(["argument or option", "meaning", "default"], rows)


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name.upper())
    return ", ".join(code(option) for option in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    of_this_machine = parameter.name in {"cores", "memory_gib"}
    if of_this_machine:
        return "the machine's"
    plain = default is not None and not callable(default) and str(default) not in {"", "()", "False", "Sentinel.UNSET"}
    return code(getattr(default, "value", default)) if plain else ""


def _help(command: Any) -> str:
    return prose((command.help or "").replace("\f", ""))
