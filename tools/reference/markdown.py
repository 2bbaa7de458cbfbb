"""Format tables, code and prose as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; an empty text if there are no rows."""
    lines = [_format_line(cells) for cells in rows]
    return "\n".join([_format_line(header), _format_line(["---"] * len(header)), *lines]) + "\n" if lines else ""


def format_code(value: object) -> str:
    """Return a value as inline code; an empty text stays empty."""
    text = str(value)
    return f"`{text}`" if text else ""


def format_prose(text: str) -> str:
    """Return a docstring's paragraphs as Markdown. Each `<` that would begin an HTML tag is escaped."""
    return re.sub(r"<(?=[a-zA-Z/])", "&lt;", text.strip())


def _format_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_format_cell(cell) for cell in cells) + " |"


def _format_cell(text: str) -> str:
    """Return a cell's text in one line. Each `|` outside inline code is escaped."""
    pieces = " ".join(text.split()).split("`")  # pieces with an odd index are inline code
    return "`".join(piece if index % 2 else piece.replace("|", "\\|") for index, piece in enumerate(pieces))
