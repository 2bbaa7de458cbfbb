"""The HTTP server: moto's application with drydock's training jobs, and its health page."""

import fcntl
import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from drydock import __version__, backend
from drydock.errors import CannotStart
from drydock.settings import Settings
from drydock.yard import Yard

log = logging.getLogger(__name__)

HEALTH_PATH = "/drydock/health"
BACKLOG = 128
# How soon the server sees that it is to end.
POLL_S = 0.1


class Application:
    """The WSGI application of one server; one in a process, since moto's registry of backends is global."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._moto = DomainDispatcherApplication(create_backend_app)
        backend.install(yard)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        # Unsigned, so that it is no object of a bucket that happens to be called drydock.
        if environ.get("PATH_INFO") == HEALTH_PATH and "HTTP_AUTHORIZATION" not in environ:
            return self._health(start_response)
        # Only browsers send an Origin, and moto lets every web page in: none may run code on this machine.
        if environ.get("HTTP_ORIGIN", self._yard.settings.url) != self._yard.settings.url:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"drydock answers no web page but its own\n"]
        answer: Iterable[bytes] = self._moto(environ, start_response)
        return answer

    def _health(self, start_response: Callable[..., Any]) -> Iterable[bytes]:
        status = {"status": "ok", "version": __version__, "pid": os.getpid()}
        body = json.dumps({**status, "jobs": backend.jobs_by_status(), **self._yard.load()}).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        CannotStart: The port is taken, or the host is none of this machine's.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotStart(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


@contextmanager
def own(data: Path) -> Iterator[None]:
    """The folder is there, and no other server uses it for as long as the context lasts.

    Raises:
        CannotStart: Another server does, or the folder cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = (data / "lock").open("a")
    except OSError as error:
        raise CannotStart(f"cannot use the data folder {data}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotStart(f"the data folder {data} is in use by another drydock") from error
        yield


@contextmanager
def serving(settings: Settings, listener: socket.socket) -> Iterator[Yard]:
    """The server answers on the socket for as long as the context lasts; after it no job runs.

    Args:
        settings: The server's settings; its url is the socket's.
        listener: From `bind`.
    """
    yard = Yard(settings)
    yard.clean_up()
    server = _server(listener, Application(yard))
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="http", daemon=True)
    thread.start()
    try:
        yield yard
    finally:
        # Jobs first: while they end, they still use the server.
        yard.close()
        server.shutdown()
        thread.join()
        server.server_close()


def _server(listener: socket.socket, application: Application) -> BaseWSGIServer:
    host, port = listener.getsockname()[:2]
    return make_server(host, port, application, threaded=True, request_handler=MotoRequestHandler, fd=listener.fileno())
