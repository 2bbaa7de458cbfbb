"""Answer frequent requests without closing their connection (HTTP persistent connections, RFC 9112, section 9.3).

werkzeug closes the connection after each request. A new connection and its thread cost about a millisecond of CPU, as
much as a prediction does. So the requests that a client may send a hundred times a second are answered here:
InvokeEndpoint, and BatchGetRecord, with which a model looks up its features.
"""

import io
import re
from collections.abc import Callable
from typing import Any

from werkzeug.serving import WSGIRequestHandler

from drydock.wsgi import WsgiApplication

MAX_DISCARDED_BYTES = 64 << 20
"""Largest part of a body that is read although the application did not read it, bytes."""
# The paths of the frequent requests.
_PATH = re.compile(r"/(endpoints/[^/?]+/invocations|BatchGetRecord)")
# Largest part of a discarded body that is read at once.
_CHUNK_BYTES = 1 << 16


class Body(io.RawIOBase):
    """The body of a request, in a stream that continues after the body.

    Args:
        stream: What the client sends, from the beginning of the body.
        length: Length of the body, bytes.
    """

    def __init__(self, stream: io.BufferedIOBase, length: int) -> None:
        super().__init__()
        self._stream, self.remaining_bytes = stream, length

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes of the body into a buffer. Return their number; 0 at the end."""
        view = memoryview(buffer)[: self.remaining_bytes]
        count = self._stream.readinto(view) if view else 0
        self.remaining_bytes -= count
        return count


def can_persist(handler: WSGIRequestHandler) -> bool:
    """Return whether the connection can stay open after the request whose head was read."""
    if handler.close_connection or handler.command != "POST" or not _PATH.fullmatch(handler.path):
        return False
    lengths = handler.headers.get_all("Content-Length", [])
    has_length = len(lengths) == 1 and lengths[0].isdecimal()
    return has_length and "Transfer-Encoding" not in handler.headers and "Expect" not in handler.headers


def answer_request(handler: WSGIRequestHandler, application: WsgiApplication) -> None:
    """Send the application's answer. If the application has not read the whole body, the connection closes after that.

    The answer is one write: of two small writes, the second would wait for the client's acknowledgement.
    """
    body = Body(handler.rfile, int(handler.headers["Content-Length"]))
    status, headers = "", []

    def start_response(new_status: str, new_headers: Any, exc_info: Any = None) -> Callable[[bytes], object]:
        nonlocal status, headers
        status, headers = new_status, [header for header in new_headers if header[0].lower() != "content-length"]
        return lambda _: None

    content = b"".join(application({**handler.make_environ(), "wsgi.input": body}, start_response))
    handler.close_connection = handler.close_connection or body.remaining_bytes > 0
    own_headers = [
        ("Server", handler.version_string()),
        ("Date", handler.date_time_string()),
        ("Content-Length", str(len(content))),
        *([("Connection", "close")] if handler.close_connection else []),
    ]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in [*headers, *own_headers])]
    handler.log_request(status.split(maxsplit=1)[0])
    handler.wfile.write("\r\n".join([*lines, "\r\n"]).encode("latin-1") + content)
    _discard_rest(body)


def _discard_rest(body: Body) -> None:
    """Read what is left of a body. If bytes stay unread, the system resets the connection, and the answer is lost."""
    unread_bytes = max(body.remaining_bytes - MAX_DISCARDED_BYTES, 0)
    while body.remaining_bytes > unread_bytes and body.read(_CHUNK_BYTES):
        pass
