"""Remove from a response the structures that were never set, since SageMaker does not send them.

moto 5.2.5 answers some of them as `{}`, such as the VpcConfig of a model that has none. A client that checks responses,
such as the sagemaker SDK, refuses an empty structure that lacks its required members.
"""

import json
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from drydock.shapes import load_operation


def remove_absent_structures(operation: str, body: str) -> str:
    """Return the body of a successful response, without the empty structures that have required members.

    Args:
        operation: Name of the operation, such as DescribeModel.
        body: The response, as JSON.
    """
    shape = load_operation(operation).output_shape
    if shape is None or not body:
        return body
    return json.dumps(_remove_absent(json.loads(body), shape))


def _remove_absent(value: Any, shape: Shape) -> Any:
    if isinstance(shape, StructureShape) and isinstance(value, dict):
        members = shape.members
        return {
            name: _remove_absent(item, members[name]) if name in members else item
            for name, item in value.items()
            if not (name in members and _is_absent(item, members[name]))
        }
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [_remove_absent(item, shape.member) for item in value]
    if isinstance(shape, MapShape) and isinstance(value, dict):
        return {key: _remove_absent(item, shape.value) for key, item in value.items()}
    return value


def _is_absent(value: Any, shape: Shape) -> bool:
    return value == {} and isinstance(shape, StructureShape) and bool(shape.required_members)
