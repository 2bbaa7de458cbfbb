"""Test the validation of requests against their shape."""

from collections.abc import Callable
from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.validation import validate_request
from drydock.jobs.training import rules
from drydock.shapes import MESSAGE_MAX_CHARS


def test_a_valid_request_loses_its_nulls(make_request: Callable[..., dict[str, Any]]) -> None:
    request = validate_request("CreateTrainingJob", make_request(Tags=None))
    assert request == make_request()
    rules.check_request(request)


def test_one_message_of_limited_length_names_all_violations() -> None:
    with pytest.raises(AWSValidationException, match="3 validation errors detected") as caught:
        validate_request("CreateTrainingJob", {"TrainingJobName": "_" * 63})
    assert "'roleArn'" in caught.value.message and "'outputDataConfig'" in caught.value.message
    with pytest.raises(AWSValidationException) as caught:
        validate_request("CreateTrainingJob", {"TrainingJobName": "a", "HyperParameters": {"k" * 300: "v" * 9000}})
    assert len(caught.value.message) <= MESSAGE_MAX_CHARS
    many = {f"{number:0300}": "" for number in range(50)}
    with pytest.raises(AWSValidationException) as caught:
        validate_request("CreateTrainingJob", {"HyperParameters": many})
    assert len(caught.value.message) == MESSAGE_MAX_CHARS
