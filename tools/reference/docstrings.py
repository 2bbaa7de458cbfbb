"""Read docstrings in Google's style."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

SECTION_PATTERN = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):[ \t]*$", re.MULTILINE)
ENTRY_PATTERN = re.compile(r"^ {4}(\**\w[\w.]*)(?: \([^)]*\))?: ", re.MULTILINE)


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring."""

    text: str
    """The text before the first section."""
    arguments: dict[str, str]
    """Descriptions of the arguments, by name."""
    returns: str
    """Description of the returned value."""
    raises: dict[str, str]
    """The condition under which each error is raised, by the error's name."""


def parse_docstring(docstring: str) -> Docstring:
    """Return the parts of a docstring; parts that it lacks are empty."""
    pieces = SECTION_PATTERN.split(inspect.cleandoc(docstring))
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    return Docstring(
        text=pieces[0].strip(),
        arguments=_parse_entries(sections.get("Args", "")),
        returns=inspect.cleandoc(sections.get("Returns", "")),
        raises=_parse_entries(sections.get("Raises", "")),
    )


def _parse_entries(section: str) -> dict[str, str]:
    pieces = ENTRY_PATTERN.split(section)
    return {name: " ".join(text.split()) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}
