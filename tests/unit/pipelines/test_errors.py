"""Test the tree of errors: bounded texts, exit codes, and pickling."""

import pickle
from collections.abc import Iterator

import pytest

from pipelines import errors
from pipelines.contract import Report
from pipelines.errors import MAX_CHARS, InvalidError, LeewayError, RetryableError


def list_errors(root: type[LeewayError] = LeewayError) -> Iterator[type[LeewayError]]:
    yield root
    for kind in root.__subclasses__():
        yield from list_errors(kind)


ALL = sorted(set(list_errors()), key=lambda kind: kind.__name__)


def test_the_docstring_shows_the_whole_tree() -> None:
    names = {line.strip("│├└─ ").split()[0] for line in str(errors.__doc__).splitlines() if "Error" in line}
    assert names == {kind.__name__ for kind in ALL}
    assert len(ALL) > 8


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("text", ["short", "x" * 10_000, "two\nlines\tand  spaces", "", "ünïcode ✓"])
def test_an_error_survives_pickling_with_text_and_fields(kind: type[LeewayError], text: str) -> None:
    error = kind(text, "Do this.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.message, copy.hint, copy.exit_code) == (
        str(error), error.message, error.hint, error.exit_code,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_an_error_is_bounded_and_has_one_line(kind: type[LeewayError]) -> None:
    error = kind("a\n" * 1_000_000 + "END", "h\n" * 1_000_000)
    assert len(str(error)) <= MAX_CHARS
    assert "\n" not in str(error)
    assert error.message.endswith("END")
    assert str(kind("m", "h")) == "m h"


@pytest.mark.parametrize("kind", ALL)
def test_the_exit_code_is_that_of_the_branch(kind: type[LeewayError]) -> None:
    expected = 2 if issubclass(kind, InvalidError) else 75 if issubclass(kind, RetryableError) else 1
    assert kind("m").exit_code == expected
    assert Report.from_error(kind("m", "h")).model_dump() == {
        "schema_version": 1, "error": kind.__name__, "message": "m", "hint": "h", "exit_code": expected,
    }  # fmt: skip


def test_escape_sequences_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in str(LeewayError("red \x1b[31m text\x07"))
