"""Simulate outages: for a while, a service of this server answers with an error, as an AWS service may."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error, read_signed_service


@dataclass
class Outage:
    """An outage of one service, or of one of its operations.

    Attributes:
        service: Name of the service in the request's signature: s3, sagemaker, logs, ...
        operation: Name of one operation in the header X-Amz-Target, such as DescribeTrainingJob; the HTTP method of
            requests without this header, such as those of s3 and of sagemaker-runtime; "" for all operations.
        status: HTTP status of the error responses.
        code: Error code in the responses, such as SlowDown or ThrottlingException.
        ends_at: When the outage ends, in seconds of the monotonic clock.
        remaining: How many error responses are left before the outage ends; infinity for no limit.
    """

    service: str
    operation: str
    status: int
    code: str
    ends_at: float
    remaining: float


class Outages:
    """WSGI middleware: answer the requests that an outage affects with its error. Safe for several threads.

    Args:
        application: Answers all other requests.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._outages: list[Outage] = []

    def add(self, outage: Outage) -> None:
        """Begin an outage."""
        with self._lock:
            self._outages.append(outage)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        outage = self._find_outage(environ) if self._outages else None
        if outage is None:
            return self._application(environ, start_response)
        message = "Please reduce your request rate." if outage.service == "s3" else "Rate exceeded"
        return answer_error(environ, start_response, ErrorResponse(outage.status, outage.code, message))

    def _find_outage(self, environ: dict[str, Any]) -> Outage | None:
        """Return the outage that affects the request, and count the response that it causes; None if there is none."""
        service = read_signed_service(environ)
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or environ.get("REQUEST_METHOD", "")
        with self._lock:
            now = time.monotonic()
            self._outages = [outage for outage in self._outages if outage.remaining > 0 and now < outage.ends_at]
            for outage in self._outages:
                if outage.service == service and outage.operation in ("", operation):
                    outage.remaining -= 1
                    return outage
        return None
