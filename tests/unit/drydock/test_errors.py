"""Test the error tree."""

import pickle

import pytest

from drydock.errors import FAILURE_REASON_MAX_CHARS, RunFailed, StartFailed


@pytest.mark.parametrize("error", [StartFailed("taken"), RunFailed("AlgorithmError: x")])
def test_errors_survive_pickling(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)


def test_a_failure_reason_is_cut() -> None:
    assert len(RunFailed("x" * 5000).reason) == FAILURE_REASON_MAX_CHARS
