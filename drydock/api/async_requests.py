"""Read the HTTP request of InvokeEndpointAsync."""

import base64
import functools
import uuid
from collections.abc import Mapping
from typing import Any

import botocore.session
from botocore.model import Shape

from drydock.endpoints.asynchronous.requests import (
    DEFAULT_TIMEOUT_S,
    DEFAULT_TTL_S,
    AsyncRequest,
    build_locations,
)
from drydock.endpoints.invocation import refuse_invocation
from drydock.shapes import describe_problems

_PREFIX = "X-Amzn-SageMaker-"
# Members of the request that are headers: the header's name is `_PREFIX`, then the member's name.
_TEXT_MEMBERS = ("InputLocation", "S3OutputPathExtension", "Filename")
_NUMBER_MEMBERS = ("RequestTTLSeconds", "InvocationTimeoutSeconds")
# Headers that the model gets, by the names of the request's headers without `_PREFIX`.
_MODEL_HEADERS = {
    "Content-Type": "Content-Type",
    "Accept": "Accept",
    "Custom-Attributes": f"{_PREFIX}Custom-Attributes",
    "Inference-Id": f"{_PREFIX}Inference-Id",
}
# SageMaker's limit for the body of a request without InputLocation.
_MAX_BODY_BYTES = 128_000


def read_async_request(
    environ: Mapping[str, Any], body: bytes, endpoint: str, config: Mapping[str, Any]
) -> AsyncRequest:
    """Return the asynchronous invocation that a request contains.

    Args:
        environ: The WSGI environment of the request.
        body: The body of the request.
        endpoint: EndpointName.
        config: AsyncInferenceConfig of the endpoint.

    Raises:
        InvocationError: The request is not valid. A retry cannot help.
    """
    members = _read_members(environ, endpoint)
    if bool(body) is ("InputLocation" in members):
        refuse_invocation("The request must have either InputLocation or a body.")
    if len(body) > _MAX_BODY_BYTES:
        refuse_invocation(f"The body has {len(body)} bytes; more than {_MAX_BODY_BYTES} bytes need InputLocation.")
    headers = {header: text for name, header in _MODEL_HEADERS.items() if (text := _read_header(environ, name))}
    request_id = str(uuid.uuid4())
    filename, extension = members.get("Filename", ""), members.get("S3OutputPathExtension", "")
    output, failure = build_locations(config, request_id, filename, extension)
    return AsyncRequest(
        endpoint=endpoint,
        inference_id=headers.get(f"{_PREFIX}Inference-Id", request_id),
        headers=headers,
        output=output,
        failure=failure,
        input=members.get("InputLocation", ""),
        body=base64.b64encode(body).decode(),
        ttl_s=members.get("RequestTTLSeconds", DEFAULT_TTL_S),
        timeout_s=members.get("InvocationTimeoutSeconds", DEFAULT_TIMEOUT_S),
        id=request_id,
    )


def _read_members(environ: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    """Return the members of the request that are headers, by name.

    Raises:
        InvocationError: One of the members is not valid. A retry cannot help.
    """
    members: dict[str, Any] = {name: text for name in _TEXT_MEMBERS if (text := _read_header(environ, name))}
    for name in _NUMBER_MEMBERS:
        if text := _read_header(environ, name):
            if not text.isdecimal():
                refuse_invocation(f"{name} must be a number, not {text[:100]!r}.")
            members[name] = int(text)
    if problems := describe_problems({"EndpointName": endpoint, **members}, _load_shape()):
        refuse_invocation(problems)
    if not members.get("InputLocation", "s3://").startswith("s3://"):
        refuse_invocation(f"InputLocation: {members['InputLocation']} is not an s3:// URI.")
    return members


@functools.cache
def _load_shape() -> Shape:
    service = botocore.session.Session().get_service_model("sagemaker-runtime")
    return service.operation_model("InvokeEndpointAsync").input_shape


def _read_header(environ: Mapping[str, Any], name: str) -> str:
    return str(environ.get("HTTP_" + f"{_PREFIX}{name}".upper().replace("-", "_"), ""))
