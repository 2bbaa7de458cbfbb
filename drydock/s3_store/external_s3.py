"""Refuse requests for S3 if another server has the buckets, so that no object is stored in the wrong place."""

from collections.abc import Callable, Iterable
from typing import Any

from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error, read_signed_service


class ExternalS3Middleware:
    """WSGI middleware that refuses requests that are signed for S3 (Signature Version 4), if S3 is on another server.

    Args:
        application: Answers all other requests.
        s3_url: URL of the other server; "" if this server has the buckets, and then nothing is refused.
    """

    def __init__(self, application: WsgiApplication, s3_url: str) -> None:
        self._application, self._s3_url = application, s3_url

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if not self._s3_url or read_signed_service(environ) != "s3":
            return self._application(environ, start_response)
        message = f"this drydock stores no S3 objects: set AWS_ENDPOINT_URL_S3 to {self._s3_url}"
        # Clients do not retry a 400.
        return answer_error(environ, start_response, ErrorResponse(400, "InvalidRequest", message))
