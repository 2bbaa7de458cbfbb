"""Test the texts of a failed deployment's error."""

import pytest
from leeway.hooks.endpoint.failures import LOG_LINES, MAX_REASON_CHARS, format_log_end


@pytest.mark.parametrize("lines", [["ValueError: no weights"], ["x" * 2_000, "ValueError: no weights"]])
def test_the_end_of_a_log_has_its_last_line(lines: list[str]) -> None:
    text = format_log_end(lines)
    assert text.startswith(" The end of its log: ") and text.endswith("ValueError: no weights")
    assert len(text) < MAX_REASON_CHARS + 30


def test_only_the_last_lines_are_in_it() -> None:
    text = format_log_end([f"line {number}" for number in range(LOG_LINES + 2)])
    assert text == " The end of its log: line 2 | line 3 | line 4"


def test_a_log_without_lines_adds_nothing() -> None:
    assert format_log_end([]) == ""
