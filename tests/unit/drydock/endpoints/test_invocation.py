"""Test the errors that clients get instead of a model's answer."""

import pytest

from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import (
    MAX_BODY_BYTES,
    InvocationError,
    InvocationResult,
    check_response,
    refuse_large_answer,
)
from drydock.resources import Owner

OWNER = Owner("123456789012", "eu-west-1")
GROUP = "arn:aws:logs:eu-west-1:123456789012:log-group:/aws/sagemaker/Endpoints/flights"


def build_result(size: int, status: int = 200) -> InvocationResult:
    response = ModelResponse(status, b"x" * size, "text/csv", log_stream="main/i-1-5")
    return InvocationResult("main", response, 0.1, 1)


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 500)])
def test_answer_within_the_limit_and_error_of_any_size_stay(size: int, status: int) -> None:
    result = build_result(size, status)
    assert refuse_large_answer(result) is result


def test_larger_answer_is_an_error_of_the_model() -> None:
    result = refuse_large_answer(build_result(MAX_BODY_BYTES + 1))
    with pytest.raises(InvocationError) as error:
        check_response(result.response, "flights", OWNER)
    assert (error.value.error_response.status, error.value.error_response.code) == (424, "ModelError")
    text = "The model's answer of 6291457 bytes is larger than the limit of 6291456 bytes."
    assert dict(error.value.error_response.details) == {
        "OriginalStatusCode": 500,
        "OriginalMessage": text,
        "LogStreamArn": f"{GROUP}:log-stream:main/i-1-5",
    }


def test_error_without_an_instance_names_the_log_group() -> None:
    with pytest.raises(InvocationError) as error:
        check_response(ModelResponse(0, b"timed out", "text/plain"), "flights", OWNER)
    assert dict(error.value.error_response.details)["LogStreamArn"] == GROUP
