"""Load a model's script-mode code, and call it: model_fn, then input_fn, predict_fn and output_fn, or transform_fn.

A stand-alone program imports this module: both are copied into a host's folder tree by `programs.copy_program`. It
needs only the standard library, since it may run in a container. On SageMaker, the model server in the container calls
these functions. Each function may have one more parameter, for the context: see `request_context`.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drydock.host.request_context import Context, RequestProcessor, find_response_attributes, find_response_status

# SageMaker's inference toolkit passes these content types to input_fn as text, and all others as bytes.
TEXT_TYPES = ("application/json", "text/csv")


class ModelAnswer(NamedTuple):
    """The answer of a model to a request."""

    body: bytes
    content_type: str
    status: int
    """HTTP status: 200, unless the model's code has set another one."""
    custom_attributes: str
    """Custom attributes that the model's code has set; empty if it has set none."""


# Returns the answer to a request, given its body, its content type, the requested type of the answer, and its headers.
# Raises UndecodableBody, the errors of the model's code, and TypeError or ValueError if the code's answer is not valid.
Predict = Callable[[bytes, str, str, Mapping[str, str]], ModelAnswer]


class UndecodableBody(ValueError):
    """The body of a request is not UTF-8, although its content type says that it is text. A retry cannot help."""

    status_code = 400


def load_model(model_dir: Path) -> Predict:
    """Load the model in a folder, and return a function that answers one request.

    The response has the type that output_fn or transform_fn returns together with the body, or else the requested type.

    Args:
        model_dir: The unpacked model.tar.gz, with the code in the folder `code`.

    Raises:
        LookupError: The model's code does not exist, or lacks a function. A retry cannot help.
        ValueError: The code has transform_fn, and also a function that transform_fn replaces. A retry cannot help.
    """
    code, name = model_dir / "code", os.environ["SAGEMAKER_PROGRAM"]
    if not (code / name).is_file():
        raise LookupError(f"no file code/{name} in the model data")
    sys.path.insert(0, str(code))
    module = importlib.import_module(name.removesuffix(".py"))
    context = Context(str(model_dir))
    model = find_handler(context, module, "model_fn", 1)(str(model_dir))
    transform = _find_transform(module, context)

    def predict(body: bytes, content_type: str, accept: str, headers: Mapping[str, str]) -> ModelAnswer:
        context.request_processor = [RequestProcessor(headers)]
        data = _decode(body, content_type) if content_type in TEXT_TYPES else body
        result = transform(model, data, content_type, accept)
        response, response_type = result[:2] if isinstance(result, tuple) else (result, accept)
        if isinstance(response, str):
            response = response.encode()
        if not isinstance(response, bytes | bytearray | memoryview):
            raise TypeError(f"the response is of the type {type(response).__name__}, not text or bytes")
        status, attributes = find_response_status(context), find_response_attributes(context)
        return ModelAnswer(bytes(response), str(response_type), status, attributes)

    return predict


def _decode(body: bytes, content_type: str) -> str:
    """Decode a text.

    Raises:
        UndecodableBody: It is not UTF-8. (SageMaker's toolkit answers 500 to it, before the model's code is called.)
    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise UndecodableBody(f"the body is not {content_type}: {error}") from error


def _find_transform(module: Any, context: Context) -> Callable[..., Any]:
    """Return transform_fn, or a function that calls input_fn, predict_fn and output_fn in turn."""
    names = ("input_fn", "predict_fn", "output_fn")
    if hasattr(module, "transform_fn"):
        if any(hasattr(module, name) for name in names):
            raise ValueError("Cannot use transform_fn in conjunction with input_fn, predict_fn and output_fn")
        return find_handler(context, module, "transform_fn", 4)
    input_fn, predict_fn, output_fn = (find_handler(context, module, name, 2) for name in names)

    def transform(model: Any, body: Any, content_type: str, accept: str) -> Any:
        return output_fn(predict_fn(input_fn(body, content_type), model), accept)

    return transform


def find_function(module: Any, name: str) -> Callable[..., Any]:
    """Return a function of a module.

    Raises:
        LookupError: The module has no such function. (A framework's own container would have a default for it.)
    """
    if not hasattr(module, name):
        raise LookupError(f"{module.__name__}.py has no {name}")
    function: Callable[..., Any] = getattr(module, name)
    return function


def find_handler(context: Context, module: Any, name: str, count: int) -> Callable[..., Any]:
    """Return a function that passes `count` arguments to a handler of a module.

    A handler with one more parameter gets the context, too.

    Raises:
        LookupError: The module has no such function.
    """
    handler = find_function(module, name)
    if len(inspect.signature(handler).parameters) == count + 1:
        return lambda *arguments: handler(*arguments, context)
    return handler
