"""FailureReason."""

from pathlib import Path

import pytest

from drydock.errors import FAILURE_REASON_MAX_CHARS
from drydock.jobs.failure import describe_algorithm_error


@pytest.mark.parametrize("said", ["", "why" * 1000])
def test_an_algorithm_error_is_short_and_keeps_the_message(tmp_path: Path, said: str) -> None:
    (tmp_path / "failure").write_text(said)
    reason = describe_algorithm_error(
        3, tmp_path / "failure", ["x" * 900, "y" * 900 + " the end"], ["python", "-c", "z" * 900]
    )
    assert len(reason) <= FAILURE_REASON_MAX_CHARS
    assert "ExitCode 3" in reason and reason.endswith("exit code: 3")
    assert ("why" in reason) if said else ("the end" in reason)
