"""The runbooks name commands, options and files that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "how-to" / "runbooks").glob("*.md"))
CALL = re.compile(r"python -m (pipelines|stack|drydock)((?: [a-z][\w-]*)*)([^`#\n|]*)")


def programs() -> dict[str, Any]:
    from drydock.__main__ import app as drydock
    from pipelines.cli.app import _commands
    from stack.cli import app as stack

    found = {"pipelines": _commands(), "stack": stack, "drydock": drydock}
    return {name: typer.main.get_command(app) for name, app in found.items()}


def wrong(text: str, known: dict[str, Any]) -> list[str]:
    """The calls in a text that no program has."""
    found = []
    for program, words, rest in CALL.findall(text.replace("\\\n", " ")):
        command, name = known[program], program
        for word in words.split():
            subcommands = getattr(command, "commands", {})
            if not subcommands:
                break  # an argument
            command, name = command.commands.get(word), f"{name} {word}"
        parameters = command.params if command else []
        options = {one for parameter in parameters for one in (*parameter.opts, *parameter.secondary_opts)}
        bad = [one for one in re.findall(r"(?<!\S)--[a-z][\w-]*", rest) if one not in {*options, "--help"}]
        if command is None or bad:
            found.append(f"{name} {bad}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_and_option_is_there(page: Path) -> None:
    text = page.read_text()
    assert CALL.search(text) or page.stem == "README"
    assert wrong(text, programs()) == []
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|\$ )make (\w+)", text)) <= set(targets)


def test_one_that_is_not_there_is_found() -> None:
    text = (
        "`python -m pipelines undo --all` and `python -m stack restore x --yes`, `python -m drydock capacity t --gone`"
    )
    assert wrong(text, programs()) == ["pipelines undo ['--all']", "stack restore ['--yes']"]


def test_a_ladder_of_types_is_told_with_the_policy_that_it_needs() -> None:
    """Without it the operator refuses more than one type: the fix of a drought would be the next failure."""
    from leeway.hooks.sagemaker.machines import POLICIES

    page = ROOT / "docs" / "how-to" / "runbooks" / "spot-drought.md"
    (ladder,) = re.findall(r"^2\. \*\*More instance types.+?(?=^3\.)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert f'on_no_capacity="{POLICIES[1]}"' in ladder
