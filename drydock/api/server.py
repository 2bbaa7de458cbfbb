"""The HTTP server: moto's application with drydock's jobs, and drydock's own pages."""

import fcntl
import logging
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from drydock.api import backend
from drydock.api.control import PREFIX, Control
from drydock.api.unimplemented import Unimplemented
from drydock.errors import CannotStart, JobFailed
from drydock.execution.queue import Yard
from drydock.execution.recovery import Heartbeat
from drydock.host.executor import Executor
from drydock.jobs.kinds import KINDS
from drydock.logs_store import backend as streams
from drydock.rehearsal.outages import Outages
from drydock.rehearsal.spot_market import Policy, SpotMarket
from drydock.s3_store import backend as buckets
from drydock.s3_store.external_s3 import ExternalS3Guard
from drydock.settings import Settings
from drydock.store import Store
from drydock.wsgi import WsgiApplication

log = logging.getLogger(__name__)

BACKLOG = 128
# How soon the server sees that it is to end.
POLL_S = 0.1


class Application:
    """The WSGI application of one server; one in a process, since moto's registry of backends is global.

    Args:
        services: AWS's services, as moto answers them.
        control: drydock's own pages.
        url: Where the server answers.
    """

    def __init__(self, services: WsgiApplication, control: Control, url: str) -> None:
        self._services, self._control, self._url = services, control, url

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        # Only browsers send an Origin, and moto lets every web page in: none may run code on this machine.
        if environ.get("HTTP_ORIGIN", self._url) != self._url:
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"drydock answers no web page but its own\n"]
        # Unsigned, so that it is no object of a bucket that happens to be called drydock.
        own = environ.get("PATH_INFO", "").startswith(PREFIX) and "HTTP_AUTHORIZATION" not in environ
        return (self._control if own else self._services)(environ, start_response)


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
def serving(settings: Settings, executor: Executor, policy: Policy, listener: socket.socket) -> Iterator[Yard]:
    """The server answers on the socket for as long as the context lasts; after it no job runs.

    Args:
        settings: The server's settings; its url is the socket's.
        executor: What runs the jobs.
        policy: How the spot market behaves.
        listener: From `bind`.

    Raises:
        CannotStart: What an earlier server kept cannot be read.
    """
    clean_up(settings.data, executor)
    store = _store(settings.data)
    yard = Yard(settings, executor, SpotMarket(policy), Heartbeat(store))
    moto = DomainDispatcherApplication(create_backend_app)
    services = Outages(ExternalS3Guard(buckets.install(store, settings.data / "objects")(moto), settings.s3_url))
    streams.install(store)
    backend.install(yard, store)
    server = _server(listener, Application(Unimplemented(services), Control(yard, services), settings.url))
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="http", daemon=True)
    thread.start()
    yard.open()
    try:
        yield yard
    finally:
        # Jobs first: while they end, they still use the server.
        yard.close()
        clean_up(settings.data, executor)  # for a thread that hung in a transfer
        server.shutdown()
        thread.join()
        server.server_close()
        store.close()


def clean_up(data: Path, executor: Executor) -> None:
    """Nothing that a killed server on this data folder had started is alive."""
    try:
        for kind in KINDS:
            for note in data.glob(f"{kind.tree}/*/*/*/*.process.json"):
                if executor.kill_left_over(note):
                    log.warning("killed what was left running of the job %s", note.parent.name)
        executor.kill_strays(data)
    except JobFailed as error:
        raise CannotStart(f"cannot end what an earlier drydock left running: {error}") from None


def _store(data: Path) -> Store:
    try:
        return Store(data / "drydock.sqlite")
    except sqlite3.Error as error:
        raise CannotStart(f"cannot read what is kept in {data}: {error}") from None


def _server(listener: socket.socket, application: Application) -> BaseWSGIServer:
    host, port = listener.getsockname()[:2]
    return make_server(host, port, application, threaded=True, request_handler=MotoRequestHandler, fd=listener.fileno())
