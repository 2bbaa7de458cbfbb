"""If moto cannot answer a request, answer it with an error in AWS's format, which clients can read."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from drydock.api.http.bad_requests import MALFORMED_XML, explain_failure, find_error_response
from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error, read_signed_service

log = logging.getLogger(__name__)

# AWS's error codes, by the HTTP status of moto's response.
CODES = {404: "UnknownOperationException", 405: "MethodNotAllowed"}
INTERNAL_FAILURE = 500
BODY_TIMEOUT = ErrorResponse(400, "RequestTimeout", "The body of the request did not arrive within the timeout period.")


class ErrorAnswers:
    """WSGI middleware: turn an exception, or an error without AWS's format, into an error response in this format.

    Args:
        application: Answers the requests.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        start_calls: list[tuple[Any, ...]] = []
        try:
            if error_response := find_error_response(environ):
                return answer_error(environ, start_response, error_response)
            response = self._application(environ, lambda *arguments: start_calls.append(arguments))
        except ConnectionError:  # the client is gone
            raise
        except TimeoutError:  # the client sends the body too slowly
            return answer_error(environ, start_response, BODY_TIMEOUT)
        except Exception as error:
            return answer_error(environ, start_response, _explain(environ, error))
        status, headers = start_calls[-1][:2]
        if str(status) >= "4" and "text/html" in dict(headers).get("Content-Type", ""):
            page = b"".join(response)
            if error_response := _replace_page(environ, int(str(status)[:3]), page):
                return answer_error(environ, start_response, error_response)
            response = [page]
        start_response(*start_calls[-1])
        return response


def _explain(environ: dict[str, Any], error: Exception) -> ErrorResponse:
    try:
        error_response = explain_failure(environ, error)
    except Exception:  # the request is so wrong that the reason cannot be found
        log.exception("cannot explain a failed request")
        error_response = ErrorResponse(INTERNAL_FAILURE, "InternalFailure", f"moto failed: {type(error).__name__}")
    if error_response.status == INTERNAL_FAILURE:
        log.error("moto failed to answer a request", exc_info=error)
    else:
        log.warning("refused a request: %s: %s", error_response.code, error_response.message)
    return error_response


def _replace_page(environ: dict[str, Any], status: int, body: bytes) -> ErrorResponse | None:
    """Return the error that replaces moto's HTML page or empty body; None for a response that stays as it is.

    A response without a body stays if it answers HEAD, or a request to S3 other than PUT and POST.
    """
    # moto treats an unsigned request as a request to S3.
    method, is_s3 = environ["REQUEST_METHOD"], read_signed_service(environ) in ("", "s3")
    if body[:15].lower().startswith(b"<!doctype html"):
        return ErrorResponse(status, CODES.get(status, "InvalidRequest"), f"no service answers {method} at this path")
    if body or method == "HEAD":
        return None
    if not is_s3:
        return ErrorResponse(status, CODES.get(status, "InvalidRequest"), "The request names no operation.")
    return MALFORMED_XML if method in ("PUT", "POST") else None
