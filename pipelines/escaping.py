"""Escape the characters of free text that a person cannot see, before the text is shown.

Free text comes from people, data and other programs. A newline could add a false line to a table. A control character
could control the terminal. A direction mark or a character without width could make two texts look the same. So all
text for people (tables, log lines, messages, forms, pages) is escaped here. JSON for programs is not escaped.
"""

from __future__ import annotations

import re

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Invisible characters that `str.isprintable` counts as printable: in Unicode, they are letters, marks or symbols.

Source: Unicode's property Default_Ignorable_Code_Point, and the blank Braille pattern. `str.isprintable` covers the
rest of the property, which has the categories Cf and Cn.
"""


def escape(value: object) -> str:
    """Return the value as one line of visible characters; an invisible one is replaced by its Python escape sequence.

    A newline becomes a backslash and an n. Idempotent: a backslash in the text is not escaped. So a part of the result
    that looks like an escape sequence may have been in the text already. This is harmless.
    """
    text = str(value)
    if is_visible(text):  # this is the fast case: nearly all texts are visible
        return text
    return "".join(character if is_visible(character) else _escape_character(character) for character in text)


def is_visible(text: str) -> bool:
    """Return whether a person can see every character of the text."""
    return text.isprintable() and not _INVISIBLE.search(text)


def escape_lines(text: str) -> str:
    """Escape each line of a text that may have several lines, such as the end of a log."""
    return "\n".join(map(escape, text.splitlines()))


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
