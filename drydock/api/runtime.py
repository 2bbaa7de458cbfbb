"""Answer InvokeEndpoint and InvokeEndpointAsync of SageMaker's runtime, before the request reaches moto.

moto would take several milliseconds to dispatch each request.
"""

import json
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.iam.models import get_account_id_from

from drydock.api.async_requests import read_async_request
from drydock.endpoints.asynchronous.requests import AsyncRequest
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.instances.fleet_options import FleetStopped
from drydock.endpoints.invocation import (
    MAX_BODY_BYTES,
    Invocation,
    InvocationError,
    InvocationResult,
    check_response,
    invoke_shadow,
    refuse_invocation,
    refuse_large_answer,
    should_copy_to_shadow,
)
from drydock.endpoints.registry import Endpoints
from drydock.endpoints.serving import serve
from drydock.resources import Owner
from drydock.wsgi import (
    ErrorResponse,
    WsgiApplication,
    answer_error,
    read_access_key,
    read_signed_region,
    read_signed_service,
)

UNSIGNED_RESPONSE = ErrorResponse(
    403,
    "MissingAuthenticationToken",
    "The request is not signed: sign it for the service sagemaker, with any credentials, as in "
    "curl --aws-sigv4 aws:amz:us-east-1:sagemaker --user test:test",
)
_PATH = re.compile(r"/endpoints/([^/]+)/(async-)?invocations")
# The headers of a request that the model gets, by their names in the WSGI environment.
_HEADERS = {
    "CONTENT_TYPE": "Content-Type",
    "HTTP_ACCEPT": "Accept",
    "HTTP_X_AMZN_SAGEMAKER_CUSTOM_ATTRIBUTES": "X-Amzn-SageMaker-Custom-Attributes",
    "HTTP_X_AMZN_SAGEMAKER_INFERENCE_ID": "X-Amzn-SageMaker-Inference-Id",
}
# The largest lengths of headers, by their names in the WSGI environment, with the names of SageMaker's members.
_MAX_CHARS = {
    "HTTP_X_AMZN_SAGEMAKER_CUSTOM_ATTRIBUTES": ("customAttributes", 1024),
    "HTTP_X_AMZN_SAGEMAKER_INFERENCE_ID": ("inferenceId", 64),
    "HTTP_X_AMZN_SAGEMAKER_TARGET_VARIANT": ("targetVariant", 63),
}
# A body that is too large is read before the error is sent, so that the client can read the error. No more than this
# number of bytes is read, and no more than _CHUNK_BYTES at once. Of a chunked body, the first MAX_BODY_BYTES + 1 bytes
# are read, and at most as many after them.
_MAX_DISCARDED_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 16


class Runtime:
    """WSGI middleware: answer invocations of endpoints.

    Args:
        endpoints: The endpoints of all accounts and regions.
        application: Answers all other requests.
    """

    def __init__(self, endpoints: Endpoints, application: WsgiApplication) -> None:
        self._endpoints, self._application = endpoints, application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        match = _PATH.fullmatch(environ.get("PATH_INFO", ""))
        if not match or environ.get("REQUEST_METHOD") != "POST":
            return self._application(environ, start_response)
        service = read_signed_service(environ)
        # moto would fail at an unsigned invocation. An unsigned POST to an S3 object is valid: it has a query string.
        if not service and not environ.get("QUERY_STRING"):
            return answer_error(environ, start_response, UNSIGNED_RESPONSE, "sagemaker")
        if service != "sagemaker":
            return self._application(environ, start_response)
        try:
            if match.group(2):
                return _answer_async(start_response, self._submit(environ, match.group(1)))
            return _answer(start_response, self._invoke(environ, match.group(1)))
        except InvocationError as error:
            return answer_error(environ, start_response, error.error_response, "sagemaker")

    def _invoke(self, environ: dict[str, Any], name: str) -> InvocationResult:
        started_at = time.perf_counter()
        owner = _read_owner(environ)
        body = _read_body(environ)
        _check_headers(environ)
        endpoint = self._endpoints.get_endpoints(owner).get(name)
        if endpoint is not None and endpoint.record.plan.asynchronous:
            refuse_invocation(f"Endpoint {name} is asynchronous: use InvokeEndpointAsync.")
        headers = {header: environ[key] for key, header in _HEADERS.items() if environ.get(key)}
        target_variant = environ.get("HTTP_X_AMZN_SAGEMAKER_TARGET_VARIANT", "")
        request = Invocation(body, headers, target_variant, self._endpoints.settings.invocation_timeout_s)
        fleet, result = serve(endpoint, request, f"{name} of account {owner.account_id}")
        result = refuse_large_answer(result)
        assert endpoint is not None, "serve refuses requests without an endpoint"
        if should_copy_to_shadow(fleet):
            self._endpoints.shadow.submit(lambda: self._invoke_shadow(endpoint, fleet, request))
        self._endpoints.record(endpoint, fleet, request, result, time.perf_counter() - started_at)
        check_response(result.response, name, owner)
        return result

    def _invoke_shadow(self, endpoint: Endpoint, fleet: Fleet, request: Invocation) -> None:
        try:
            with fleet.count_request():
                result = invoke_shadow(fleet, endpoint.faults, request)
        except FleetStopped:
            return
        if result:
            self._endpoints.record(endpoint, fleet, request, result, result.model_latency_s)

    def _submit(self, environ: dict[str, Any], name: str) -> AsyncRequest:
        """Add an asynchronous invocation to the queue of its endpoint."""
        owner = _read_owner(environ)
        body = _read_body(environ)
        _check_headers(environ)
        endpoint = self._endpoints.get_endpoints(owner).get(name)
        if endpoint is None or endpoint.fleet is None:
            refuse_invocation(f"Endpoint {name} of account {owner.account_id} not found.")
        config = endpoint.record.plan.asynchronous
        if config is None:
            refuse_invocation(f"Endpoint {name} has no AsyncInferenceConfig: use InvokeEndpoint.")
        request = read_async_request(environ, body, name, config)
        self._endpoints.async_invocations.submit(owner, request)
        return request


def _read_owner(environ: dict[str, Any]) -> Owner:
    return Owner(find_account_id(environ), read_signed_region(environ))


def find_account_id(environ: dict[str, Any]) -> str:
    """Return the account that a request belongs to, as moto finds it."""
    if account_id := environ.get("HTTP_X_MOTO_ACCOUNT_ID"):
        return str(account_id)
    return str(get_account_id_from(read_access_key(environ)))


def _check_headers(environ: dict[str, Any]) -> None:
    """Refuse headers that are longer than SageMaker allows."""
    for key, (member, limit) in _MAX_CHARS.items():
        if len(environ.get(key, "")) > limit:
            rule = f"Member must have length less than or equal to {limit}"
            refuse_invocation(f"1 validation error detected: Value at '{member}' failed to satisfy constraint: {rule}")


def _read_body(environ: dict[str, Any]) -> bytes:
    """Read the body of a request.

    Raises:
        InvocationError: The body is larger than SageMaker allows, or incomplete. A retry cannot help.
    """
    length, stream = int(environ.get("CONTENT_LENGTH") or 0), environ["wsgi.input"]
    if environ.get("wsgi.input_terminated"):  # a chunked body
        body = bytes(stream.read(MAX_BODY_BYTES + 1))
        if len(body) <= MAX_BODY_BYTES:
            return body
        length = len(body)
    elif length <= MAX_BODY_BYTES:
        body = bytes(stream.read(length))
        if len(body) < length:
            refuse_invocation("The request body is shorter than its Content-Length.")
        return body
    remaining_bytes = min(length, _MAX_DISCARDED_BYTES)
    while remaining_bytes > 0 and (chunk := stream.read(min(remaining_bytes, _CHUNK_BYTES))):
        remaining_bytes -= len(chunk)
    refuse_invocation(f"Request body of {length} bytes is larger than the limit of {MAX_BODY_BYTES} bytes.", 413)


def _answer(start_response: Callable[..., Any], result: InvocationResult) -> Iterable[bytes]:
    response = result.response
    headers = [
        ("Content-Type", response.content_type or "application/octet-stream"),
        ("Content-Length", str(len(response.body))),
        ("x-Amzn-Invoked-Production-Variant", result.variant),
    ]
    if response.custom_attributes:
        headers.append(("X-Amzn-SageMaker-Custom-Attributes", response.custom_attributes))
    start_response("200 OK", headers)
    return [response.body]


def _answer_async(start_response: Callable[..., Any], request: AsyncRequest) -> Iterable[bytes]:
    body = json.dumps({"InferenceId": request.inference_id}).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("X-Amzn-SageMaker-OutputLocation", request.output),
    ]
    if request.failure:
        headers.append(("X-Amzn-SageMaker-FailureLocation", request.failure))
    start_response("202 Accepted", headers)
    return [body]
