"""What the WSGI middlewares share: their type, and the service that a request is signed for."""

import re
from collections.abc import Callable, Iterable
from typing import Any

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# The credential scope of Signature Version 4: key, date, region, service.
_CREDENTIAL_SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]*/([^/]+)/aws4_request")


def read_signed_service(environ: dict[str, Any]) -> str:
    """Return the service that a request is signed for, such as s3; "" for an unsigned request."""
    scope = _CREDENTIAL_SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return scope.group(1) if scope else ""
