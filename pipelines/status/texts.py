"""Shorten free text, such as reasons and error messages, for the JSON documents that Leeway's page shows."""

from __future__ import annotations

from pipelines.escaping import escape

MAX_CHARS = 500
"""Largest length of a text in a document, characters."""


def shorten(text: str) -> str:
    """Escape invisible characters, and shorten the result to at most `MAX_CHARS` characters."""
    escaped_text = escape(text)
    return escaped_text if len(escaped_text) <= MAX_CHARS else f"{escaped_text[: MAX_CHARS - 1]}…"
