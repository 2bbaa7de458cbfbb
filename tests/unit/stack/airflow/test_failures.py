"""Test the exit code of a step, which is read from the log of its task."""

import pytest

from stack.airflow.failures import find_exit_code


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["the step ended with exit code 2"], 2),
        (["exited with code 75"], 75),
        (["Exit status: 75", "something after"], 75),
        (["exit code 2", "tried again", "exit code 75"], 75),
        (["exit code 1"], 1),
        (["exit code 250"], 1),
        (["AirflowFailException: validate: the day is empty", "::endgroup"], 2),
        (["AirflowException: ingest: MLflow does not answer"], 75),
        (["AirflowException: ingest ended with exit code 1 and said nothing"], 1),
        (["RuntimeError: a bug"], 1),
        ([], 1),
    ],
)
def test_finds_the_last_exit_code_in_the_log(lines, code):
    assert find_exit_code(lines) == code
