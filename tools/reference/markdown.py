"""Write tables and values in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; an empty text where there are no rows."""
    lines = [_line(cells) for cells in rows]
    return "\n".join([_line(header), _line(["---"] * len(header)), *lines]) + "\n" if lines else ""


def code(value: object) -> str:
    """Return a value as inline code; an empty text stays empty."""
    text = str(value)
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Return a docstring's paragraphs as Markdown: DAG, NAME or <x> must not become HTML."""
    return re.sub(r"<(?=[a-zA-Z/])", "&lt;", text.strip())


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    """Return a cell's text in one line, with the bars that are not within inline code escaped."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if index % 2 else part.replace("|", "\\|") for index, part in enumerate(parts))
