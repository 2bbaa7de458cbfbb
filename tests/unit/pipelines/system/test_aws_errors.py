"""Test that an error of AWS's clients becomes one line, and says whether a retry can help."""

from __future__ import annotations

import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError

from pipelines.errors import InvalidError, LeewayError, ServiceError, SpecError
from pipelines.system.aws_errors import translate_aws_errors


def make_error(code: str) -> ClientError:
    """Return the error that AWS answers to an operation."""
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "StopNotebookInstance")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            make_error("AccessDeniedException"),
            InvalidError,
            "AWS denies StopNotebookInstance: AccessDeniedException: no.",
        ),
        (make_error("InternalFailure"), ServiceError, "SageMaker failed: An error occurred (InternalFailure)"),
        (
            EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
            ServiceError,
            "SageMaker does not answer: Could not",
        ),
        (NoCredentialsError(), SpecError, "credentials"),
    ],
    ids=["denied", "failed", "no answer", "no credentials"],
)
def test_error_says_whether_a_retry_can_help(
    error: ClientError | BotoCoreError, kind: type[LeewayError], text: str
) -> None:
    with pytest.raises(LeewayError) as raised, translate_aws_errors("SageMaker"):
        raise error
    assert type(raised.value) is kind and text in raised.value.message
    assert raised.value.hint, "it says what to do"


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(KeyError), translate_aws_errors("SageMaker"):
        raise KeyError("a bug")
