"""Run an ASGI app with uvicorn until a signal ends it."""

from __future__ import annotations

import errno
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn

from pipelines.errors import ConflictError, SpecError

BACKLOG = 128
"""Largest number of connections that wait until the server accepts them."""
GRACE_S = 60
"""Longest time that requests in progress may take after SIGTERM, seconds: SageMaker's limit for a request."""
KEEP_ALIVE_S = 75
"""Time after which an idle connection is closed, seconds. Clients close theirs earlier: after a minute."""


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket. Call this before the model is loaded, so that a wrong address fails at once.

    Raises:
        SpecError: the host or the port cannot be used by this user on this machine. A retry cannot help.
        ConflictError: another process uses the port. A retry can help.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise SpecError(f"--host {host!r} is not an address: {error}.", "Give an address of this machine.") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        # Linux lets two sockets with SO_REUSEADDR bind one port, and refuses only the second that listens.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            hint = "Stop the other process, or give another --port; 0 finds a free one."
            raise ConflictError(f"port {port} of {host} is in use.", hint) from None
        raise SpecError(f"{host} port {port} cannot be used: {error.strerror}.", "Give another.") from None
    return listener


def serve(app: Any, listener: socket.socket, report_start: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or SIGINT. Then requests in progress are finished, and no new ones are accepted.

    Args:
        app: the ASGI app.
        listener: what `bind` returned.
        report_start: called once the server answers.
    """
    server = _Server(app, report_start)
    # Without this, each full garbage collection examines the objects of the libraries, and stops the server for a tenth
    # of a second.
    gc.collect()
    gc.freeze()
    # uvicorn catches the signal, and raises it again after the last answer. Without these handlers, the process would
    # then end with an error code.
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listener])
    finally:
        gc.unfreeze()
        for number, handler in handlers.items():
            with suppress(TypeError):  # None: the handler was not set from Python
                signal.signal(number, handler)


class _Server(uvicorn.Server):
    """A server that reports when it answers."""

    def __init__(self, app: Any, report_start: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )
        self._report_start = report_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._report_start()
