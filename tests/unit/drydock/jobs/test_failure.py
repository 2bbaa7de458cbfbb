"""Test the FailureReason of a failed job."""

from pathlib import Path

import pytest

from drydock.errors import FAILURE_REASON_MAX_CHARS
from drydock.jobs.failure import describe_algorithm_error


@pytest.mark.parametrize("message", ["", "why" * 1000])
def test_algorithm_error_is_short_and_keeps_the_message(tmp_path: Path, message: str) -> None:
    (tmp_path / "failure").write_text(message)
    reason = describe_algorithm_error(
        3, tmp_path / "failure", "x" * 900 + "\n" + "y" * 900 + " the end", ["python", "-c", "z" * 900]
    )
    assert len(reason) <= FAILURE_REASON_MAX_CHARS
    assert "ExitCode 3" in reason and reason.endswith("exit code: 3")
    assert ("why" in reason) if message else ("the end" in reason)
