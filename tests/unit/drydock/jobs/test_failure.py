"""Test the FailureReason of a failed job."""

from pathlib import Path

import pytest

from drydock.errors import FAILURE_REASON_MAX_CHARS
from drydock.jobs.failure import describe_algorithm_error, list_last_lines


@pytest.mark.parametrize("message", ["", "why" * 1000])
def test_algorithm_error_is_short_and_keeps_the_message(tmp_path: Path, message: str) -> None:
    (tmp_path / "failure").write_text(message)
    reason = describe_algorithm_error(
        3, tmp_path / "failure", "x" * 900 + "\n" + "y" * 900 + " the end", ["python", "-c", "z" * 900]
    )
    assert len(reason) <= FAILURE_REASON_MAX_CHARS
    assert "ExitCode 3" in reason and reason.endswith("exit code: 3")
    assert ("why" in reason) if message else ("the end" in reason)


def test_last_lines_of_a_log_have_neither_empty_ones_nor_markers_of_a_column() -> None:
    traceback = """
Traceback (most recent call last):
  File "inference.py", line 3, in model_fn
    raise RuntimeError(name)
    ^^^^^^^^^^^^^^^^^^^^^^^^

RuntimeError: no such feature
"""
    assert list_last_lines(traceback, 3) == [
        'File "inference.py", line 3, in model_fn',
        "raise RuntimeError(name)",
        "RuntimeError: no such feature",
    ]
    assert list_last_lines("") == []
