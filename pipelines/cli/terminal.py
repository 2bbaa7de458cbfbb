"""Write lines and tables to the terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

WIDTH = 150
"""Width of a table where the output is not a terminal."""


def write_line(line: str) -> None:
    """Write one line to stdout. Control characters become spaces: data must not control a terminal or add lines."""
    sys.stdout.write(f"{''.join(character if character.isprintable() else ' ' for character in line)}\n")


def make_console(*, stderr: bool = False) -> Any:
    """Make a rich console for stdout or stderr."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH)


def write_json(value: Any) -> None:
    """Write a value to stdout as indented JSON, for programs; a value of a type that JSON lacks is written as text."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")
