"""Test the errors of the stack."""

import pickle

import pytest

from stack.errors import RequestError, StackError, TaskFailedError, UnavailableError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StackError("a", "b"), 1),
        (RequestError("a", "b"), 2),
        (UnavailableError("a", "b"), 75),
        (TaskFailedError("a", "b", 2), 2),
        (TaskFailedError("a", "b"), 1),
    ],
)
def test_error_survives_pickling_with_its_exit_code(error, code):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.details, copy.exit_code) == (type(error), "a", "b", code)
