"""Find AWS's error for a request that moto cannot answer.

moto does not validate most requests: a malformed request can raise any exception in moto's code. `find_error_response`
returns the error for a request that must not reach moto. `explain_failure` finds the error after moto has raised an
exception.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from botocore.model import OperationModel, ServiceModel
from botocore.validate import ParamValidator
from moto.backend_index import backend_url_patterns
from moto.core.parse import PROTOCOL_PARSERS
from moto.moto_server.werkzeug_app import SIGNING_ALIASES, UNSIGNED_REQUESTS
from werkzeug.datastructures import MultiDict

from drydock.errors import truncate
from drydock.regions import list_regions
from drydock.wsgi import ErrorResponse, find_service_model, read_signed_region, read_signed_service

# Largest number of levels in the JSON of a request, and largest length of an error message.
JSON_MAX_DEPTH = 128
MESSAGE_MAX_CHARS = 2000
# Services with several host names, of which moto chooses one by other parts of the request. `_has_service` does not
# compare their host names.
_MULTI_HOST_SERVICES = ("sagemaker", "dynamodb", "mediastore", "timestream", "bedrock", "s3")
MALFORMED_XML = ErrorResponse(
    400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema."
)


def find_error_response(environ: dict[str, Any]) -> ErrorResponse | None:
    """Return the error for a request that must not reach moto; None for any other request."""
    length, target = environ.get("CONTENT_LENGTH") or "0", environ.get("HTTP_X_AMZ_TARGET")
    if not re.fullmatch("[0-9]{1,18}", length):
        return ErrorResponse(400, "InvalidArgument", f"Content-Length is not a number: {length[:20]}")
    if environ.get("PATH_INFO", "/") in ("", "/"):
        _buffer_body(environ)  # for all other paths, the S3 middleware buffers the body
    if target is None:
        return None
    # moto would treat an unsigned request as a request to S3.
    if "HTTP_AUTHORIZATION" not in environ and target.partition(".")[0] not in UNSIGNED_REQUESTS:
        message = (
            f"Unsigned requests have no operation {truncate(target, 100)!r}: sign the request, with any credentials."
        )
        return ErrorResponse(400, "UnknownOperationException", message)
    if _is_too_deep(_get_body(environ)):
        return ErrorResponse(
            400, "SerializationException", f"The JSON is nested more than {JSON_MAX_DEPTH} levels deep."
        )
    return None


def explain_failure(environ: dict[str, Any], error: Exception) -> ErrorResponse:
    """Return the error for a request that moto failed to answer.

    Args:
        environ: The WSGI environment of the request.
        error: The exception that moto raised.
    """
    service = read_signed_service(environ)
    model = find_service_model(service or "s3")
    operation = _read_operation(environ)
    return (
        _check_signature(environ, service)
        or _check_operation(model, operation, error)
        or _check_encoding(environ, error)
        or _check_body(environ, model, operation)
        or _check_parameters(model, error)
        or ErrorResponse(500, "InternalFailure", f"moto failed to answer the request: {type(error).__name__}")
    )


def _check_signature(environ: dict[str, Any], service: str) -> ErrorResponse | None:
    authorization, region = environ.get("HTTP_AUTHORIZATION", ""), read_signed_region(environ)
    # A header that begins with "AWS " is a signature of version 2, which has no credential scope.
    if authorization and not service and not authorization.startswith("AWS "):
        return ErrorResponse(403, "IncompleteSignature", "The Authorization header has no AWS credential scope.")
    if service and not _has_service(service):
        return ErrorResponse(400, "UnknownService", f"drydock has no service {truncate(service, 60)!r}.")
    if service and service != "s3" and region not in {"aws-global", *list_regions()}:
        message = f"Credential should be scoped to a valid region, not {truncate(region, 60)!r}."
        return ErrorResponse(403, "SignatureDoesNotMatch", message)
    return None


def _has_service(service: str) -> bool:
    """Return whether moto has the service that a request was signed for."""
    name = SIGNING_ALIASES.get(service.lower(), service.lower())
    url = f"http://{name}.us-east-1.amazonaws.com"
    return name in _MULTI_HOST_SERVICES or any(pattern.match(url) for _, pattern in backend_url_patterns)


def _read_operation(environ: dict[str, Any]) -> str | None:
    """Return the operation that a header or a parameter names; None if the path and the method decide it."""
    if "HTTP_X_AMZ_TARGET" in environ:
        return str(environ["HTTP_X_AMZ_TARGET"]).rpartition(".")[2]
    parameters = dict(parse_qsl(environ.get("QUERY_STRING", "")))
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        parameters |= dict(parse_qsl(_get_body(environ).decode(errors="replace")))
    return parameters.get("Action")


def _check_operation(model: ServiceModel | None, operation: str | None, error: Exception) -> ErrorResponse | None:
    """Return the error for an operation that AWS or moto does not have; None for any other operation."""
    is_unimplemented = isinstance(error, NotImplementedError)
    protocol = model.metadata["protocol"] if model else ""
    is_unknown = model is not None and not protocol.startswith("rest-") and operation not in model.operation_names
    # moto or drydock does not implement the operation. If the request does not name it, the path and method decide it.
    if is_unimplemented and (operation is None or not is_unknown):
        # AWS's clients retry after status 500, but not after 501.
        return ErrorResponse(501, "NotImplemented", str(error) or "moto does not implement this operation")
    if not is_unknown:
        return None
    if protocol == "json":
        return _refuse_operation(operation or "")
    if operation is None:
        return ErrorResponse(400, "MissingAction", "The request names no Action.")
    return ErrorResponse(
        400, "InvalidAction", f"The action {truncate(operation, 100)} is not valid for this web service."
    )


def _refuse_operation(target: str) -> ErrorResponse:
    message = f"There is no operation {truncate(target, 100)!r}." if target else "The request names no operation."
    return ErrorResponse(400, "UnknownOperationException", message)


def _check_encoding(environ: dict[str, Any], error: Exception) -> ErrorResponse | None:
    if isinstance(error, RecursionError):
        return ErrorResponse(400, "SerializationException", "The request is nested too deeply.")
    if isinstance(error, (gzip.BadGzipFile, EOFError, zlib.error)) and "HTTP_CONTENT_ENCODING" in environ:
        return ErrorResponse(400, "SerializationException", "The body is not compressed as Content-Encoding says.")
    return None


def _check_parameters(model: ServiceModel | None, error: Exception) -> ErrorResponse | None:
    if isinstance(error, ValueError) and model and model.metadata["protocol"] == "rest-xml":
        return ErrorResponse(
            400, "InvalidArgument", f"A parameter or a header is malformed: {truncate(str(error), 200)}"
        )
    return None


def _check_body(environ: dict[str, Any], model: ServiceModel | None, operation: str | None) -> ErrorResponse | None:
    """Return the error for a body that is malformed or lacks what the operation requires; None for any other body."""
    if model is None:
        return None
    body, protocol = _get_body(environ), model.metadata["protocol"]
    if protocol == "rest-xml":
        return _check_xml(environ, body)
    request: Any = None
    if "json" in protocol and (body or protocol == "json"):
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            return ErrorResponse(400, "SerializationException", f"The body is not JSON: {truncate(str(error), 200)}")
        if not isinstance(request, Mapping):
            return ErrorResponse(400, "SerializationException", "The body is not a JSON object.")
    operation_model = model.operation_model(operation) if operation else None
    is_query = protocol in ("query", "ec2")
    return _check_query(environ, operation_model, protocol) if is_query else _check_members(request, operation_model)


def _check_query(environ: dict[str, Any], operation: OperationModel | None, protocol: str) -> ErrorResponse | None:
    try:
        return _check_members(_parse_query(environ, operation, protocol), operation) if operation else None
    except (ValueError, OverflowError, RuntimeError) as error:  # a parameter should be a number or a time, but is not
        return ErrorResponse(
            400, "InvalidParameterValue", f"A parameter has an invalid value: {truncate(str(error), 200)}"
        )


def _check_xml(environ: dict[str, Any], body: bytes) -> ErrorResponse | None:
    """Return the error for a request that configures a bucket or an object; None for others, such as PutObject."""
    is_bucket = "/" not in str(environ.get("PATH_INFO", "")).strip("/")
    if environ["REQUEST_METHOD"] not in ("PUT", "POST") or not (is_bucket or environ.get("QUERY_STRING")):
        return None
    if not body:
        return ErrorResponse(400, "MissingRequestBodyError", "Request Body is empty")
    # The body is not well-formed, or lacks an element that moto needs. S3 has the same error for both cases.
    return MALFORMED_XML


def _parse_query(environ: dict[str, Any], operation: OperationModel, protocol: str) -> Any:
    pairs = parse_qsl(environ.get("QUERY_STRING", "")) + parse_qsl(_get_body(environ).decode(errors="replace"))
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    return parser.parse({"values": MultiDict(pairs), "headers": {}, "body": b"", "method": "POST", "url_path": "/"})


def _check_members(request: Any, operation: OperationModel | None) -> ErrorResponse | None:
    if not isinstance(request, Mapping) or operation is None or operation.input_shape is None:
        return None
    members = {name: value for name, value in request.items() if value is not None}
    report = ParamValidator().validate(members, operation.input_shape)
    if not report.has_errors():
        return None
    return ErrorResponse(400, "ValidationException", truncate(report.generate_report(), MESSAGE_MAX_CHARS))


def _is_too_deep(body: bytes) -> bool:
    """Return whether a JSON text has more than JSON_MAX_DEPTH levels. For malformed JSON, the result is undefined."""
    if body.count(b"[") + body.count(b"{") <= JSON_MAX_DEPTH:
        return False
    depth = max_depth = 0
    # A string is one token, so the brackets in it are not counted.
    for token in re.findall(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', body, re.DOTALL):
        depth += (token in (b"[", b"{")) - (token in (b"]", b"}"))
        max_depth = max(max_depth, depth)
    return max_depth > JSON_MAX_DEPTH


def _buffer_body(environ: dict[str, Any]) -> None:
    """Read the body into memory, as moto does, so that it can be read again after moto has failed."""
    stream = environ["wsgi.input"]
    is_terminated = environ.get("wsgi.input_terminated")
    body = stream.read() if is_terminated else stream.read(int(environ.get("CONTENT_LENGTH") or 0))
    environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})


def _get_body(environ: dict[str, Any]) -> bytes:
    """Return the request's body; b"" if it is not in memory."""
    stream = environ["wsgi.input"]
    return stream.getvalue() if isinstance(stream, io.BytesIO) else b""
