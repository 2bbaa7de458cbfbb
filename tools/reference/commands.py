"""Build the page of the command lines: `python -m pipelines`, `python -m drydock`, `python -m stack` and make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from drydock.__main__ import app as drydock_app
from pipelines.cli.app import build_app
from stack.cli import app as stack_app
from tools.reference.markdown import format_code, format_prose, format_table
from tools.reference.steps import find_steps

TARGET_PATTERN = re.compile(r"^([a-z-]+):.*?## (.+)$", re.MULTILINE)
"""A target of the Makefile, and the comment that describes it."""


def load_programs() -> dict[str, Any]:
    """Return the command line of each program, as click's command, by the program's name."""
    apps = {"pipelines": build_app(), "drydock": drydock_app, "stack": stack_app}
    return {name: typer.main.get_command(app) for name, app in apps.items()}


def build_page(root: Path) -> str:
    """Return the page of all commands.

    Args:
        root: folder of the project, which has the Makefile.
    """
    sections = ["# Commands\n", *_render_make_targets(root)]
    for name, program in load_programs().items():
        sections.append(f"## python -m {name}\n\n{_format_help(program)}\n")
        sections += _render_group(
            f"python -m {name}", program, skipped_names=set(find_steps()) if name == "pipelines" else set()
        )
    return "\n".join(sections)


def _render_make_targets(root: Path) -> Iterator[str]:
    rows = [
        [format_code(f"make {name}"), format_prose(text)]
        for name, text in TARGET_PATTERN.findall((root / "Makefile").read_text())
    ]
    yield "## make\n"
    yield format_table(["target", "what it does"], rows)


def _render_group(prefix: str, group: Any, skipped_names: set[str]) -> Iterator[str]:
    """Yield the options of a program and a section for each of its commands."""
    yield _render_parameters(group)
    if skipped_names:
        yield "A command for each [step](steps/index.md), and the commands below.\n"
    for name, command in getattr(group, "commands", {}).items():
        if name in skipped_names:
            continue
        if getattr(command, "commands", None):
            yield f"### {name}\n\n{_format_help(command)}\n"
            yield from _render_group(f"{prefix} {name}", command, skipped_names=set())
        else:
            yield f"#### {prefix} {name}\n\n{_format_help(command)}\n"
            yield _render_parameters(command)


def _render_parameters(command: Any) -> str:
    rows = [
        [_format_name(parameter), format_prose(getattr(parameter, "help", "") or ""), _format_default(parameter)]
        for parameter in command.params
        if parameter.name != "help"
    ]
    return format_table(["argument or option", "meaning", "default"], rows)


def _format_name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return format_code(parameter.metavar or parameter.name.upper())
    return ", ".join(format_code(option) for option in (*parameter.opts, *parameter.secondary_opts))


def _format_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    is_machine_value = parameter.name in {"cores", "memory_gib"}
    if is_machine_value:
        return "the machine's"
    is_shown = (
        default is not None and not callable(default) and str(default) not in {"", "()", "False", "Sentinel.UNSET"}
    )
    return format_code(getattr(default, "value", default)) if is_shown else ""


def _format_help(command: Any) -> str:
    return format_prose((command.help or "").replace("\f", ""))
