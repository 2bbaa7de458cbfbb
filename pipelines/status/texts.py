"""Shorten texts of people and programs for the documents."""

from __future__ import annotations

from pipelines.escaping import escape

MAX_CHARS = 500
"""Largest length of a text in a document."""


def shorten(text: str) -> str:
    """Return the text without invisible characters, and cut to `MAX_CHARS`."""
    visible = escape(text)
    return visible if len(visible) <= MAX_CHARS else f"{visible[: MAX_CHARS - 1]}…"
