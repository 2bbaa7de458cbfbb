"""Check the values of a request against botocore's model of an operation, with AWS's error messages."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.model import OperationModel, Shape

from drydock.errors import truncate

MESSAGE_MAX_CHARS = 2000
"""Largest length of an error message."""
MAX_ENUM_VALUES = 12
"""Largest number of an enum's values that a message lists: some enums have hundreds."""


@functools.cache
def load_operation(name: str, service: str = "sagemaker") -> OperationModel:
    """Return botocore's model of an operation."""
    return botocore.session.Session().get_service_model(service).operation_model(name)


def describe_problems(value: Any, shape: Shape) -> str:
    """Return what is wrong with the members of a request, in AWS's words; "" if nothing is.

    Args:
        value: The members by name.
        shape: botocore's model of the request.
    """
    problems = list(_find_problems(value, shape, ""))
    if not problems:
        return ""
    plural = "s" if len(problems) > 1 else ""
    return truncate(f"{len(problems)} validation error{plural} detected: {'; '.join(problems)}", MESSAGE_MAX_CHARS)


def _find_problems(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Yield missing members, and values that violate an enum, a pattern, a minimum or a maximum, in AWS's words.

    `path` is the place of the value in the request, such as resourceConfig.instanceType; "" for the request itself.
    botocore's ParamValidator, which runs after this, finds values of the wrong type.
    """
    if shape.type_name == "structure" and isinstance(value, dict):
        yield from _find_structure_problems(value, shape, path)
    elif shape.type_name == "list" and isinstance(value, list):
        yield from _find_range_problems(value, len(value), shape, path, "length")
        for number, item in enumerate(value, 1):
            yield from _find_problems(item, shape.member, f"{path}.{number}.member")
    elif shape.type_name == "map" and isinstance(value, dict):
        yield from _find_range_problems(value, len(value), shape, path, "length")
        for key, item in value.items():
            yield from _find_problems(key, shape.key, f"{path}.key")
            yield from _find_problems(item, shape.value, f"{path}.{key}.member")
    elif shape.type_name == "string" and isinstance(value, str):
        yield from _find_string_problems(value, shape, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _find_range_problems(value, value, shape, path, "value")


def _find_structure_problems(value: dict[str, Any], shape: Shape, path: str) -> Iterator[str]:
    for name in shape.required_members:
        if name not in value:
            yield f"Value null at '{_join_path(path, name)}' failed to satisfy constraint: Member must not be null"
    for name, item in value.items():
        if name in shape.members:
            yield from _find_problems(item, shape.members[name], _join_path(path, name))


def _join_path(path: str, name: str) -> str:
    member = name[0].lower() + name[1:]
    return f"{path}.{member}" if path else member


def _find_string_problems(value: str, shape: Shape, path: str) -> Iterator[str]:
    yield from _find_range_problems(value, len(value), shape, path, "length")
    pattern = shape.metadata.get("pattern")
    if pattern and not _is_match(pattern, value):
        yield _describe_violation(value, path, f"satisfy regular expression pattern: {pattern}")
    if shape.enum and value not in shape.enum:
        values = ", ".join(shape.enum[:MAX_ENUM_VALUES])
        ellipsis = ", ..." if len(shape.enum) > MAX_ENUM_VALUES else ""
        yield _describe_violation(value, path, f"satisfy enum value set: [{values}{ellipsis}]")


def _find_range_problems(value: Any, size: float, shape: Shape, path: str, measure: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield _describe_violation(value, path, f"have {measure} greater than or equal to {low}")
    if high is not None and size > high:
        yield _describe_violation(value, path, f"have {measure} less than or equal to {high}")


def _describe_violation(value: Any, path: str, rule: str) -> str:
    return f"Value '{truncate(str(value), 100)}' at '{path}' failed to satisfy constraint: Member must {rule}"


def _is_match(pattern: str, value: str) -> bool:
    try:
        # The service matches the whole value. DOTALL, since its '.*' includes line breaks.
        return re.fullmatch(pattern, value, re.DOTALL) is not None
    except re.error:
        # The patterns are written for Java. A pattern that Python cannot compile is ignored.
        return True
