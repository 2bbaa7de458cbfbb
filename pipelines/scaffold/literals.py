"""Write values as literals of Python, so that no name or value of the data can become code."""

from __future__ import annotations

from collections.abc import Sequence

LINE_CHARS = 120
"""Length of the longest line of code, characters."""
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""Maps each character to its escape sequence in Python."""


def quote(text: str) -> str:
    """Write a text as a literal in double quotes; in single ones if it has more double than single ones (as ruff)."""
    quote_char = "'" if text.count('"') > text.count("'") else '"'
    return f"{quote_char}{_escape(text, quote_char)}{quote_char}"


def escape(text: str) -> str:
    """Write a text for a comment or a docstring: on one line, without a character that could end the docstring."""
    return _escape(text, '"')


def _escape(text: str, quote_char: str) -> str:
    escapes = {**ESCAPES, quote_char: f"\\{quote_char}"}
    return "".join(escapes.get(char) or (char if char.isprintable() else _escape_code(ord(char))) for char in text)


def _escape_code(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_tuple(texts: Sequence[str]) -> str:
    """Write texts as the Python code of a tuple."""
    return f"({', '.join(map(quote, texts))}{',' if len(texts) == 1 else ''})"


def format_assignment(name: str, literal: str) -> str:
    """Write an assignment as `ruff format` does: put a literal that only fits on its own line in parentheses."""
    if len(name) + 3 + len(literal) <= LINE_CHARS or len(literal) + 4 > LINE_CHARS:
        return f"{name} = {literal}"
    return f"{name} = (\n    {literal}\n)"


def format_tuple_argument(beginning: str, items: Sequence[str], indent: int) -> str:
    """Write texts as a tuple after `beginning`, such as `key=`: on one line if they fit, else each on its own line."""
    line = f"{' ' * indent}{beginning}{format_tuple(items)}"
    if len(line) < LINE_CHARS:
        return line
    space = " " * (indent + 4)
    return f"{' ' * indent}{beginning}(\n" + "".join(f"{space}{quote(item)},\n" for item in items) + " " * indent + ")"
