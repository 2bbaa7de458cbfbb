"""Test that texts become literals of Python with the same value, and nothing else."""

import ast
import random

import pytest

from pipelines.scaffold.literals import escape, format_tuple, quote

TEXTS = (
    *(
        "plain",
        "",
        'a"b',
        "a'b",
        "a\"b'c",
        "\\",
        '\\"',
        '"""',
        "'''",
        "a\nb",
        "\r\t\0",
        "\x85\u2028\u202e",
        "\ud800",
        "😀",
    ),
    "".join(map(chr, range(0x180))),
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_literal_has_the_value_of_its_text(text: str) -> None:
    assert ast.literal_eval(quote(text)) == text
    assert ast.literal_eval(f'"""{escape(text)}"""') == text
    assert ast.literal_eval(format_tuple([text])) == (text,)
    for written in (quote(text), escape(text)):
        assert written.isprintable(), "one line, without characters that cannot be seen"


def test_random_texts_have_their_value() -> None:
    rng = random.Random(7)
    for _ in range(2_000):
        text = "".join(rng.choice("\\\"'{}#%\n ab\u2028N") for _ in range(rng.randrange(12)))
        assert ast.literal_eval(quote(text)) == text == ast.literal_eval(f'"""{escape(text)}"""')


def test_an_unescaped_docstring_would_be_code() -> None:
    """The negative control: without `escape`, the text ends the docstring."""
    text = '""" + str(1) + """'
    assert not isinstance(ast.parse(f'"""{text}"""').body[0].value, ast.Constant)  # type: ignore[attr-defined]
    assert isinstance(ast.parse(f'"""{escape(text)}"""').body[0].value, ast.Constant)  # type: ignore[attr-defined]
