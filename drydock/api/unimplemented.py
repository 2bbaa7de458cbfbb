"""What moto does not do is answered with an error that a client can read, and not with a page of HTML."""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape

from drydock.wsgi import WsgiApplication

log = logging.getLogger(__name__)

# A client does not try this one again, as it would a 500.
STATUS = "501 Not Implemented"
CODE = "NotImplemented"


class Unimplemented:
    """WSGI middleware: an operation that moto does not know is refused in a line.

    Args:
        application: What answers; it raises NotImplementedError.
    """

    def __init__(self, application: WsgiApplication) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        try:
            return self._application(environ, start_response)
        except NotImplementedError as error:
            log.warning("refused: %s", error)
            return _refuse(str(error) or "moto does not do this", environ, start_response)


def _refuse(said: str, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    content_type = environ.get("CONTENT_TYPE", "")
    if "HTTP_X_AMZ_TARGET" in environ or "json" in content_type:
        kind, body = "application/x-amz-json-1.1", json.dumps({"__type": CODE, "message": said})
    else:
        inner = f"<Type>Sender</Type><Code>{CODE}</Code><Message>{escape(said)}</Message>"
        kind, body = "application/xml", f"<ErrorResponse><Error>{inner}</Error></ErrorResponse>"
    start_response(STATUS, [("Content-Type", kind), ("x-amzn-ErrorType", CODE)])
    return [body.encode()]
