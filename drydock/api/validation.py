"""Validate requests against botocore's model of the operation, with AWS's error messages."""

from typing import Any

from botocore.validate import ParamValidator
from moto.sagemaker.exceptions import AWSValidationException

from drydock.errors import truncate
from drydock.shapes import MESSAGE_MAX_CHARS, describe_problems, load_operation


def validate_request(operation_name: str, request: Any, service: str = "sagemaker") -> dict[str, Any]:
    """Check that a request has the operation's shape, and return it without its null members.

    Args:
        operation_name: Name of the operation, such as CreateTrainingJob.
        request: The parsed body of the request.
        service: botocore's name of the operation's service.

    Raises:
        AWSValidationException: The request does not have the operation's shape. A retry cannot help.
    """
    shape = load_operation(operation_name, service).input_shape
    if not isinstance(request, dict):
        raise AWSValidationException("The request body is not a JSON object.")
    cleaned_request: dict[str, Any] = _remove_nulls(request)
    # `describe_problems` checks the values; `ParamValidator` finds values of a wrong type and unknown members.
    if message := describe_problems(cleaned_request, shape):
        raise AWSValidationException(message)
    report = ParamValidator().validate(cleaned_request, shape)
    if report.has_errors():
        raise AWSValidationException(truncate(report.generate_report(), MESSAGE_MAX_CHARS))
    return cleaned_request


def _remove_nulls(value: Any) -> Any:
    # In AWS's JSON protocol, null means that the member is absent.
    if isinstance(value, dict):
        return {key: _remove_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_remove_nulls(item) for item in value]
    return value
