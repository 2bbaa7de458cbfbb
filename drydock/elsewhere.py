"""S3 that another server keeps: requests for it that reach this one are refused, not answered from a second world."""

from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape

from drydock.outages import SCOPE, Wsgi


class Elsewhere:
    """WSGI middleware: what is signed for S3 is told where S3 is.

    Args:
        application: What answers all else.
        s3_url: Where S3 is; "" where it is here.
    """

    def __init__(self, application: Wsgi, s3_url: str) -> None:
        self._application, self._s3_url = application, s3_url

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        found = SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        if not self._s3_url or found is None or found.group(1) != "s3":
            return self._application(environ, start_response)
        said = f"this drydock keeps no objects: set AWS_ENDPOINT_URL_S3 to {self._s3_url}"
        # 400, which no client tries again.
        start_response("400 Bad Request", [("Content-Type", "application/xml")])
        error = f"<Code>InvalidRequest</Code><Message>{escape(said)}</Message>"
        return [f"<?xml version='1.0'?><Error>{error}</Error>".encode()]
