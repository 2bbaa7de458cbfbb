"""Write lines and tables to the terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

from pipelines.errors import SpecError
from pipelines.escaping import escape, is_visible

WIDTH = 150
"""Width of a table, characters, if the output is not a terminal."""


def write_line(line: str) -> None:
    """Write one line to stdout, escaped: the text cannot add a line or control the terminal."""
    sys.stdout.write(f"{escape(line)}\n")


def make_console(*, stderr: bool = False) -> Any:
    """Make a rich console for stdout or stderr. The console writes text unchanged, without markup."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDTH
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def write_json(value: Any, *, is_strict: bool = False) -> None:
    """Write a value to stdout as indented JSON, for programs; a value of a type that JSON lacks is written as text.

    Args:
        value: the value.
        is_strict: whether to refuse infinite numbers and NaN, which JSON does not have.

    Raises:
        SpecError: `is_strict` is true, and a number is infinite or NaN. A retry cannot help.
    """
    try:
        text = format_json(value, indent=2, is_strict=is_strict)
    except ValueError:
        message = "a figure of the result is infinite or NaN, and JSON has no such numbers."
        raise SpecError(message, "A size, time or price is absurdly large or small.") from None
    sys.stdout.write(f"{text}\n")


def format_json(value: Any, indent: int | None = None, *, is_strict: bool = False) -> str:
    """Format a value as JSON, with invisible characters escaped. A value of a type that JSON lacks is written as text.

    Raises:
        ValueError: `is_strict` is true, and a number is infinite or NaN. A retry cannot help.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str, allow_nan=not is_strict)
    # JSON has already escaped the newlines in strings. The other newlines separate the lines of the indented JSON.
    return "".join(
        character if character == "\n" or is_visible(character) else json.dumps(character)[1:-1] for character in text
    )
