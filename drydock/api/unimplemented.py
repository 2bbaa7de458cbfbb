"""Requests that moto does not implement get an error that a client can read, instead of an HTML page."""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape

from drydock.wsgi import WsgiApplication, read_signed_service

log = logging.getLogger(__name__)

# AWS clients retry a 500, but not a 501.
STATUS = "501 Not Implemented"
CODE = "NotImplemented"


class UnimplementedMiddleware:
    """WSGI middleware: turn a NotImplementedError into an error response.

    Args:
        application: Answers the requests; it raises NotImplementedError for an operation that it does not know.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        try:
            return self._application(environ, start_response)
        except NotImplementedError as error:
            log.warning("refused a request: %s", error)
            return _refuse(str(error) or "moto does not implement this operation", environ, start_response)


def _refuse(message: str, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    # A request to SageMaker's runtime has the content type of the model's input.
    is_sagemaker = read_signed_service(environ) == "sagemaker"
    if is_sagemaker or "HTTP_X_AMZ_TARGET" in environ or "json" in environ.get("CONTENT_TYPE", ""):
        content_type, body = "application/x-amz-json-1.1", json.dumps({"__type": CODE, "message": message})
    else:
        details = f"<Type>Sender</Type><Code>{CODE}</Code><Message>{escape(message)}</Message>"
        content_type, body = "application/xml", f"<ErrorResponse><Error>{details}</Error></ErrorResponse>"
    start_response(STATUS, [("Content-Type", content_type), ("x-amzn-ErrorType", CODE)])
    return [body.encode()]
