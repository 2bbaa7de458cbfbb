"""Send requests to one model server over connections that stay open."""

import contextlib
import http.client
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

PING_TIMEOUT_S = 2.0
"""SageMaker's limit for the answer to /ping."""


@dataclass(frozen=True)
class ModelResponse:
    """The response of a model server.

    Attributes:
        status: HTTP status; 0 if the model did not answer in time.
        body: The body.
        content_type: Content type of the body.
        custom_attributes: The header X-Amzn-SageMaker-Custom-Attributes.
        log_stream: Name of the log stream of the instance that got the request; "" if no instance got it.
    """

    status: int
    body: bytes
    content_type: str
    custom_attributes: str = ""
    log_stream: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the model has answered the request without an error."""
        return 200 <= self.status < 300


class ConnectionPool:
    """Connections to a model server on this machine. Safe for several threads: each request has its own connection.

    Args:
        port: The server's port on the loopback address.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._answered_at = 0.0  # when the last response came (time.monotonic)
        self._sent_times: list[float] = []  # when each request in progress was sent
        self.is_stuck = False
        """Whether the model server seems to hang: the oldest request in progress timed out, and no other request got a
        response while that one waited."""

    def post(self, body: bytes, headers: Mapping[str, str], timeout_s: float) -> ModelResponse:
        """Send a request to /invocations, and return the response, whatever its status.

        Raises:
            TimeoutError: There is no response within `timeout_s` seconds.
            OSError, HTTPException: The server has ended, or has closed the connection before its response was complete.
        """
        sent_at = time.monotonic()
        self._sent_times.append(sent_at)
        connection = self._take_connection(timeout_s)
        try:
            connection.request("POST", "/invocations", body, dict(headers))
            response = connection.getresponse()
            content = response.read()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError) and self._answered_at < sent_at == min(self._sent_times):
                self.is_stuck = True
            raise
        finally:
            self._sent_times.remove(sent_at)
        self._answered_at = time.monotonic()
        self._idle.append(connection)
        attributes = response.headers.get("X-Amzn-SageMaker-Custom-Attributes", "")
        return ModelResponse(response.status, content, response.headers.get("Content-Type", ""), attributes)

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _take_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        try:
            connection = self._idle.pop()
        except IndexError:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_s)
        connection.timeout = timeout_s
        if connection.sock:
            connection.sock.settimeout(timeout_s)
        return connection


def is_answering_ping(port: int) -> bool:
    """Return whether a model server on this machine answers /ping with status 200 within two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PING_TIMEOUT_S)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
