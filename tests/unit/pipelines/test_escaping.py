"""Test that text for people is on one line, and that every character of it can be seen."""

import sys
import unicodedata
from collections.abc import Sequence

import pytest

from pipelines.escaping import escape, escape_lines, is_visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("late at EWR: 12 %, größer, 遅延, 🛫, \\d+", "late at EWR: 12 %, größer, 遅延, 🛫, \\d+"),
        ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
        ("\x1b[2J \x07 \x00 \x7f", "\\x1b[2J \\x07 \\x00 \\x7f"),
        ("\x85 \x9b2J \u2028 \u2029", "\\x85 \\x9b2J \\u2028 \\u2029"),
        ("\u202egnp.exe \u2066x\u2069 \u200f", "\\u202egnp.exe \\u2066x\\u2069 \\u200f"),
        ("a\u200bb\u200dc\u2060d\ufeffe\xadf", "a\\u200bb\\u200dc\\u2060d\\ufeffe\\xadf"),
        ("a\u034fb\u115fc\u3164d\ufe0fe\u2800f\uffa0", "a\\u034fb\\u115fc\\u3164d\\ufe0fe\\u2800f\\uffa0"),
        ("\U000e0041 \U000e0100 \ud800", "\\U000e0041 \\U000e0100 \\ud800"),
        ("no\xa0break \u3000wide", "no\\xa0break \\u3000wide"),
    ],
)
def test_shows_each_character(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(shown) == shown, "escaping twice changes nothing"


PLANES = [*range(0x20000), *range(0xE0000, 0xE1000)]
"""All characters but ideographs, and those that are not assigned or for private use."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "points", [PLANES, pytest.param(range(sys.maxunicode + 1), marks=pytest.mark.soak)], ids=["planes", "all"]
)
def test_no_character_without_a_shape_or_with_an_effect_is_left(points: Sequence[int]) -> None:
    """None of the categories for control, format and separators is shown as it is."""
    for character in map(chr, points):
        category = unicodedata.category(character)
        assert is_visible(escape(character))
        if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or (category == "Zs" and character != " "):
            assert escape(character).startswith("\\"), f"U+{ord(character):04X}"


def test_other_values_are_shown_as_text() -> None:
    assert (escape(None), escape(1.5), escape(["a\n"])) == ("None", "1.5", "['a\\n']")


def test_lines_are_escaped_one_by_one() -> None:
    assert escape_lines("one \x1b[1m\ntwo\x9b\n") == "one \\x1b[1m\ntwo\\x9b"
