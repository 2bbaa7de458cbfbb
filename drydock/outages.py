"""Rehearsed outages: for a while, a service of this server answers with an error, as AWS's do on a bad day."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from xml.sax.saxutils import escape

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]*/([^/]+)/aws4_request")


@dataclass
class Outage:
    """One outage.

    Attributes:
        service: As requests are signed for it: s3, sagemaker, logs, ...
        operation: Such as DescribeTrainingJob; "" for all. For s3 an HTTP method.
        status: HTTP status of the answers.
        code: Error code of the answers, such as SlowDown or ThrottlingException.
        until: The end, on the monotonic clock.
        left: Answers that are left, where it is limited by number too.
    """

    service: str
    operation: str
    status: int
    code: str
    until: float
    left: float


class Outages:
    """WSGI middleware: requests that an outage hits never reach the application.

    Args:
        application: What answers the others.
    """

    def __init__(self, application: Wsgi) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._outages: list[Outage] = []

    def add(self, outage: Outage) -> None:
        """The outage begins."""
        with self._lock:
            self._outages.append(outage)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        hit = self._hit(environ) if self._outages else None
        if hit is None:
            return self._application(environ, start_response)
        xml = hit.service == "s3"
        body = _xml(hit.code) if xml else json.dumps({"__type": hit.code, "message": "Rate exceeded"})
        kind = "application/xml" if xml else "application/x-amz-json-1.1"
        start_response(f"{hit.status} {HTTPStatus(hit.status).phrase}", [("Content-Type", kind)])
        return [body.encode()]

    def _hit(self, environ: dict[str, Any]) -> Outage | None:
        found = SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        service = found.group(1) if found else ""
        target = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2] or environ.get("REQUEST_METHOD", "")
        with self._lock:
            self._outages = [one for one in self._outages if one.left > 0 and time.monotonic() < one.until]
            for one in self._outages:
                if one.service == service and one.operation in ("", target):
                    one.left -= 1
                    return one
        return None


def _xml(code: str) -> str:
    message = "<Message>Please reduce your request rate.</Message>"
    return f"<?xml version='1.0'?><Error><Code>{escape(code)}</Code>{message}</Error>"
