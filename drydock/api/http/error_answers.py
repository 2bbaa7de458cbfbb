"""If moto cannot answer a request, answer it with an error in AWS's format, which clients can read."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from drydock.api.http.bad_requests import MALFORMED_XML, explain_failure, find_refusal
from drydock.wsgi import Refusal, WsgiApplication, answer_error, read_signed_service

log = logging.getLogger(__name__)

CODES = {404: "UnknownOperationException", 405: "MethodNotAllowed"}
INTERNAL_FAILURE = 500
BODY_TIMEOUT = Refusal(400, "RequestTimeout", "The body of the request did not arrive within the timeout period.")


class ErrorAnswers:
    """WSGI middleware: turn an exception, or an HTML page of an error, into an error response in AWS's format.

    Args:
        application: Answers the requests.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        start_calls: list[tuple[Any, ...]] = []
        try:
            if refusal := find_refusal(environ):
                return answer_error(environ, start_response, refusal)
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
            if refusal := _replace_page(environ, int(str(status)[:3]), page):
                return answer_error(environ, start_response, refusal)
            response = [page]
        start_response(*start_calls[-1])
        return response


def _explain(environ: dict[str, Any], error: Exception) -> Refusal:
    try:
        refusal = explain_failure(environ, error)
    except Exception:  # the request is so wrong that the reason cannot be found
        log.exception("cannot explain a failed request")
        refusal = Refusal(INTERNAL_FAILURE, "InternalFailure", f"moto failed: {type(error).__name__}")
    if refusal.status == INTERNAL_FAILURE:
        log.error("moto failed to answer a request", exc_info=error)
    else:
        log.warning("refused a request: %s: %s", refusal.code, refusal.message)
    return refusal


def _replace_page(environ: dict[str, Any], status: int, body: bytes) -> Refusal | None:
    """Return the error that replaces moto's HTML page or empty body; None for a response that is an error of AWS."""
    method, is_s3 = environ["REQUEST_METHOD"], read_signed_service(environ) in ("", "s3")
    if body[:15].lower().startswith(b"<!doctype html"):
        return Refusal(status, CODES.get(status, "InvalidRequest"), f"no service answers {method} at this path")
    if body or method == "HEAD":
        return None
    if not is_s3:
        return Refusal(status, CODES.get(status, "InvalidRequest"), "The request names no operation.")
    return MALFORMED_XML if method in ("PUT", "POST") else None
