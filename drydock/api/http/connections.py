"""Limit how many connections the HTTP server has at a time, and for how long a client may be silent or slow.

Each connection has a thread, and carries one request. Only the frequent requests that `persistence` answers share a
connection. Without these limits, clients that send nothing, or one byte a minute, would keep threads forever.
"""

import contextlib
import functools
import io
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import ThreadedWSGIServer

from drydock.api.http.persistence import answer_request, can_persist

_access_log = logging.getLogger("werkzeug")
# The shortest wait for a socket: data that has arrived is always read, however slow this machine is.
_MIN_WAIT_S = 0.001
# Largest part of an answer that is sent at once. The time that the client needed is measured after each part.
_SEND_BYTES = 1 << 16


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of a server's connections.

    Attributes:
        max_connections: Largest number of connections at a time. If a client opens one more, the oldest connection that
            has not sent the head of a request for `min_silence_s` is closed. If there is no such connection, the new
            one waits.
        min_silence_s: Seconds for which a connection without a complete head is never closed. In this time, even a
            loaded machine reads a head that has arrived.
        max_wait_s: Seconds in total for which the server waits for a client that sends a request and reads the answer,
            and seconds for which it waits for the next request on a connection.
        min_bytes_per_s: Slowest transfer: for this number of bytes that a client sends or reads, the server waits one
            second more.
    """

    max_connections: int = 256
    min_silence_s: float = 2.0
    max_wait_s: float = 20.0
    min_bytes_per_s: float = 4096.0


class LimitedSocket(io.RawIOBase):
    """A socket as a file. A read or write raises a TimeoutError if the server has waited for the client for too long.

    Args:
        connection: The client's socket.
        limits: The server's limits.

    Attributes:
        remaining_s: Seconds for which the server still waits for the client.
    """

    def __init__(self, connection: socket.socket, limits: ConnectionLimits) -> None:
        super().__init__()
        self._connection, self._limits = connection, limits
        self.remaining_s = limits.max_wait_s

    def restart_wait(self) -> None:
        """Give the client the whole waiting time again, for its next request."""
        self.remaining_s = self._limits.max_wait_s

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer what the client has sent. Return the number of bytes; 0 at the end."""
        return self._run_with_timeout(lambda: self._connection.recv_into(buffer))

    def write(self, data: Any) -> int:
        """Send all of the data, and return the number of bytes."""
        view = memoryview(data).cast("B")
        sent_bytes = 0
        while sent_bytes < len(view):
            part = view[sent_bytes : sent_bytes + _SEND_BYTES]
            sent_bytes += self._run_with_timeout(functools.partial(self._connection.send, part))
        return sent_bytes

    def _run_with_timeout(self, transfer: Callable[[], int]) -> int:
        """Transfer bytes within the remaining time, and return their number."""
        started_at = time.monotonic()
        self._connection.settimeout(max(self.remaining_s, _MIN_WAIT_S))
        count = transfer()
        self.remaining_s += count / self._limits.min_bytes_per_s - (time.monotonic() - started_at)
        return count


class LimitedRequestHandler(MotoRequestHandler):
    """Handles the requests of one connection, within the server's limits."""

    server: "LimitedServer"
    error_content_type = "application/xml"
    error_message_format = "<Error><Code>%(message)s</Code><Message>%(explain)s</Message></Error>\n"

    def setup(self) -> None:
        """Prepare the streams of the connection."""
        self.connection = self.request
        self.wfile = LimitedSocket(self.connection, self.server.limits)
        self.rfile = io.BufferedReader(self.wfile)

    def finish(self) -> None:
        """Release the streams. The server closes the socket."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log the request. werkzeug would format the line, which takes 0.1 ms, even if it is not logged."""
        if _access_log.isEnabledFor(logging.INFO):
            super().log_request(code, size)

    def run_wsgi(self) -> None:
        """Answer the request, whose head has arrived."""
        if not self.server.forbid_closing(self.connection):
            return
        if can_persist(self):
            answer_request(self, self.server.app)
            self._wait_for_next_request()
        else:
            self.close_connection = True
            super().run_wsgi()

    def _wait_for_next_request(self) -> None:
        """Wait until the next request arrives. If none does, or if the server stops, let the connection end."""
        self.wfile.restart_wait()
        try:
            is_open = self.server.allow_closing(self.connection) and bool(self.rfile.peek(1))
        except OSError:  # no request has arrived in time, or the client has closed the connection
            is_open = False
        self.close_connection = self.close_connection or not is_open
        self.wfile.restart_wait()


class LimitedServer(ThreadedWSGIServer):
    """A WSGI server on a listening socket, with limits for its connections.

    In its methods, as in those of socketserver, `request` is the socket of a connection.

    Args:
        listener: The listening socket.
        application: Answers the requests.
        limits: The limits of the connections; the defaults if None.
    """

    request_queue_size = 128

    def __init__(self, listener: socket.socket, application: Any, limits: ConnectionLimits | None = None) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__(host, port, application, LimitedRequestHandler, fd=listener.fileno())
        self.limits = limits or ConnectionLimits()
        self._condition = threading.Condition()
        # Maps the socket of each connection to the time.monotonic() since which it waits for a request, or to None once
        # the head of the request has arrived. Of those that wait, the one that has waited longest comes first.
        self._waiting_since: dict[socket.socket, float | None] = {}
        self._is_stopping = False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a new connection, once there are fewer connections than the limit."""
        with self._condition:
            while len(self._waiting_since) >= self.limits.max_connections and not self._is_stopping:
                self._close_oldest_silent_connection()
            self._waiting_since[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._remove_connection(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection, in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._remove_connection(request)

    def forbid_closing(self, request: socket.socket) -> bool:
        """Exempt a connection from closing, because its request has arrived. Return False if it is closed already."""
        with self._condition:
            if request in self._waiting_since:
                self._waiting_since[request] = None
            return request in self._waiting_since

    def allow_closing(self, request: socket.socket) -> bool:
        """Allow a connection to be closed again, because it waits for its next request. Return False if it must end."""
        with self._condition:
            # The value of an open connection with a request is None; of a closed connection there is no value.
            if self._is_stopping or self._waiting_since.pop(request, 0.0) is not None:
                return False
            self._waiting_since[request] = time.monotonic()  # last in the order of waiting
            self._condition.notify_all()  # a new connection may wait until an old one may be closed
            return True

    def shutdown(self) -> None:
        """Stop the loop that accepts connections, and end the connections that wait for a request."""
        with self._condition:
            self._is_stopping = True
            for request in [request for request, time_s in self._waiting_since.items() if time_s is not None]:
                self._end_connection(request)
            self._condition.notify_all()
        super().shutdown()

    def _close_oldest_silent_connection(self) -> None:
        """Close the oldest silent connection. If none may be closed yet, wait until one may be, or until one ends."""
        silent_connections = (
            (request, time_s) for request, time_s in self._waiting_since.items() if time_s is not None
        )
        request, waiting_since = next(silent_connections, (None, 0.0))
        wait_s = waiting_since + self.limits.min_silence_s - time.monotonic()
        if request is None or wait_s > 0:
            self._condition.wait(None if request is None else wait_s)
            return
        self._end_connection(request)

    def _end_connection(self, request: socket.socket) -> None:
        del self._waiting_since[request]
        with contextlib.suppress(OSError):  # the client has closed it
            request.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes the socket

    def _remove_connection(self, request: socket.socket) -> None:
        with self._condition:
            self._waiting_since.pop(request, None)
            self._condition.notify_all()
