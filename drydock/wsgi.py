"""Read a request's signature, and answer a request with an error in AWS's format; for all WSGI middlewares."""

import functools
import json
import re
from collections.abc import Callable, Iterable
from http.client import responses as HTTP_PHRASES
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from botocore.model import ServiceModel
from moto.core.utils import get_service_model

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# The credential scope of Signature Version 4 (key, date, region, service), from a header or a presigned URL.
_CREDENTIAL_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]*)/([^/]+)/aws4_request")


class ErrorResponse(NamedTuple):
    """An error response: its HTTP status, AWS's error code, the message, and more elements of the error."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, Any], ...] = ()


def read_signed_service(environ: dict[str, Any]) -> str:
    """Return the service that a request is signed for, such as s3; "" without a signature of version 4."""
    scope = _find_scope(environ)
    return scope.group(3) if scope else ""


def read_access_key(environ: dict[str, Any]) -> str:
    """Return the access key that a request is signed with; "" without a signature of version 4."""
    scope = _find_scope(environ)
    return scope.group(1) if scope else ""


def read_signed_region(environ: dict[str, Any]) -> str:
    """Return the region that a request is signed for; "" without a signature of version 4."""
    scope = _find_scope(environ)
    return scope.group(2) if scope else ""


def _find_scope(environ: dict[str, Any]) -> re.Match[str] | None:
    header, query = environ.get("HTTP_AUTHORIZATION", ""), environ.get("QUERY_STRING", "")
    return _CREDENTIAL_SCOPE.search(header) or _CREDENTIAL_SCOPE.search(unquote(query))


@functools.lru_cache(maxsize=64)
def find_service_model(service: str) -> ServiceModel | None:
    """Return botocore's model of a service; None if botocore has no service of this name."""
    try:
        return get_service_model(service)
    except UnknownServiceError:
        return None


def answer_error(
    environ: dict[str, Any], start_response: Callable[..., Any], error_response: ErrorResponse, service: str = ""
) -> Iterable[bytes]:
    """Answer a request with an error in the format of the requested service: JSON, XML, or S3's own form of XML.

    Args:
        environ: The request.
        start_response: Called with the status and the headers.
        error_response: The error.
        service: The service that the request is for; read from its signature if "".
    """
    content_type, body = _serialize(environ, error_response, service or read_signed_service(environ))
    headers = [
        ("Content-Type", content_type),
        ("Content-Length", str(len(body))),
        ("x-amzn-ErrorType", error_response.code),
    ]
    start_response(f"{error_response.status} {HTTP_PHRASES.get(error_response.status, 'Error')}", headers)
    return [b""] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


def _serialize(environ: dict[str, Any], error_response: ErrorResponse, service: str) -> tuple[str, bytes]:
    """Return the content type and the body of an error response."""
    content_type = environ.get("CONTENT_TYPE", "")
    model = find_service_model(service) if service else None
    # The content type of a request to SageMaker's runtime is that of the model's input, so the service decides first.
    is_json = (
        "json" in model.metadata["protocol"] if model else "HTTP_X_AMZ_TARGET" in environ or "json" in content_type
    )
    if is_json:
        return "application/x-amz-json-1.1", _serialize_json(error_response)
    elements = (("Code", error_response.code), ("Message", error_response.message), *error_response.details)
    details = "".join(f"<{name}>{escape(str(text))}</{name}>" for name, text in elements)
    is_s3 = service == "s3" or not (service or content_type.startswith("application/x-www-form-urlencoded"))
    xml = f"<Error>{details}</Error>"
    if not is_s3:
        xml = f"<ErrorResponse><Error><Type>Sender</Type>{details}</Error></ErrorResponse>"
    return "application/xml", f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}'.encode()


def _serialize_json(error_response: ErrorResponse) -> bytes:
    return json.dumps(
        {"__type": error_response.code, "message": error_response.message, **dict(error_response.details)}
    ).encode()
