"""Requests checked against botocore's own description of the operation, answered in SageMaker's words."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator
from moto.sagemaker.exceptions import AWSValidationException

from drydock.errors import bounded

MESSAGE_MAX_CHARS = 2000
ENUM_VALUES_SHOWN = 12


@functools.cache
def operation(name: str) -> OperationModel:
    """Return botocore's model of a SageMaker operation."""
    return botocore.session.Session().get_service_model("sagemaker").operation_model(name)


def validate(operation_name: str, request: Any) -> dict[str, Any]:
    """Return the request, known to be of the operation's shape, without the members that are null.

    Raises:
        AWSValidationException: The request is not; a retry cannot help.
    """
    shape = operation(operation_name).input_shape
    if not isinstance(request, dict):
        raise AWSValidationException("The request body is not a JSON object.")
    cleaned: dict[str, Any] = _without_nulls(request)
    problems = list(_problems(cleaned, shape, ""))
    if problems:
        plural = "s" if len(problems) > 1 else ""
        listed = "; ".join(problems)
        text = f"{len(problems)} validation error{plural} detected: {listed}"
        raise AWSValidationException(bounded(text, MESSAGE_MAX_CHARS))
    report = ParamValidator().validate(cleaned, shape)
    if report.has_errors():
        raise AWSValidationException(bounded(report.generate_report(), MESSAGE_MAX_CHARS))
    return cleaned


def _without_nulls(value: Any) -> Any:
    # In AWS's JSON protocol a null member is an absent one.
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _problems(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield what ParamValidator does not check (enum, pattern, max), and what is missing.

    A value of the wrong type is left to ParamValidator.
    """
    if shape.type_name == "structure" and isinstance(value, dict):
        yield from _structure_problems(value, shape, path)
    elif shape.type_name == "list" and isinstance(value, list):
        yield from _range_problems(value, len(value), shape, path, "length")
        for number, item in enumerate(value, 1):
            yield from _problems(item, shape.member, f"{path}.{number}.member")
    elif shape.type_name == "map" and isinstance(value, dict):
        yield from _range_problems(value, len(value), shape, path, "length")
        for key, item in value.items():
            yield from _problems(key, shape.key, f"{path}.key")
            yield from _problems(item, shape.value, f"{path}.{key}.member")
    elif shape.type_name == "string" and isinstance(value, str):
        yield from _string_problems(value, shape, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _range_problems(value, value, shape, path, "value")


def _structure_problems(value: dict[str, Any], shape: Shape, path: str) -> Iterator[str]:
    for name in shape.required_members:
        if name not in value:
            yield f"Value null at '{_join(path, name)}' failed to satisfy constraint: Member must not be null"
    for name, item in value.items():
        if name in shape.members:
            yield from _problems(item, shape.members[name], _join(path, name))


def _join(path: str, name: str) -> str:
    member = name[0].lower() + name[1:]
    return f"{path}.{member}" if path else member


def _string_problems(value: str, shape: Shape, path: str) -> Iterator[str]:
    yield from _range_problems(value, len(value), shape, path, "length")
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        yield _violated(value, path, f"satisfy regular expression pattern: {pattern}")
    if shape.enum and value not in shape.enum:
        shown = ", ".join(shape.enum[:ENUM_VALUES_SHOWN])
        more = ", ..." if len(shape.enum) > ENUM_VALUES_SHOWN else ""
        yield _violated(value, path, f"satisfy enum value set: [{shown}{more}]")


def _range_problems(value: Any, size: float, shape: Shape, path: str, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _violated(value, path, f"have {what} greater than or equal to {low}")
    if high is not None and size > high:
        yield _violated(value, path, f"have {what} less than or equal to {high}")


def _violated(value: Any, path: str, rule: str) -> str:
    return f"Value '{bounded(str(value), 100)}' at '{path}' failed to satisfy constraint: Member must {rule}"


def _matches(pattern: str, value: str) -> bool:
    try:
        # The service matches the whole value; DOTALL since its '.*' means anything.
        return re.fullmatch(pattern, value, re.DOTALL) is not None
    except re.error:
        # The patterns are Java's: one that Python cannot read is not held against the request.
        return True
