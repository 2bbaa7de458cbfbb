"""Where requests to S3 queue: those for one object one after the other, each kept before it is answered."""

import io
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from moto.s3.responses import S3Response

from drydock.s3_store.keys import StorageFault
from drydock.s3_store.tables import Shelf
from drydock.s3_store.transaction import Change

log = logging.getLogger(__name__)

WINDOWS = 64
READS = ("GET", "HEAD", "OPTIONS")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Counter:
    """WSGI middleware around moto.

    moto 5.2.5 is not made for two requests that change one object at a time (a version is lost, a reader meets a
    closed file). Here those for one object share a window, of WINDOWS; those that change a bucket take them all.

    Args:
        shelf: What keeps the objects.
        application: moto's.
    """

    def __init__(self, shelf: Shelf, application: Application) -> None:
        self._shelf, self._application = shelf, application
        self._windows = [threading.RLock() for _ in range(WINDOWS)]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        needed = windows(environ)
        # The body first: a client that sends slowly must not hold a window.
        if needed and not _receive(environ):
            return _cut(start_response)
        with self._holding(needed), self._shelf.request() as change:
            said: list[tuple[Any, ...]] = []
            answer = self._application(environ, lambda *line: said.append(line))
            fault = self._kept(change, environ["REQUEST_METHOD"], str(said[-1][0]))
        if fault:
            return fault(environ, start_response)
        start_response(*said[-1])
        return answer

    def _kept(self, change: Change, method: str, status: str) -> StorageFault | None:
        """What the request changed is kept, or undone where it was refused; returns what to answer instead."""
        if method in READS and not change.before:
            return None
        if status >= "4":
            # moto has put an object in its place before it refuses its tags.
            change.undo()
        try:
            self._shelf.commit(change)
        except (sqlite3.Error, OSError, TypeError) as error:
            log.error("a request to S3 cannot be kept: %s", error)
            change.undo()
            change.drop_files(self._shelf.blobs)
            return StorageFault(f"The change cannot be kept: {error}.")
        return None

    @contextmanager
    def _holding(self, numbers: Iterable[int]) -> Iterator[None]:
        with ExitStack() as held:
            # In one order for all: no two wait for each other.
            for number in sorted(numbers):
                held.enter_context(self._windows[number])
            yield


def windows(environ: dict[str, Any]) -> set[int]:
    """Return which windows a request needs: of the objects that its path and its source name."""
    path, changing = str(environ.get("PATH_INFO", "/")), environ["REQUEST_METHOD"] not in READS
    host = environ.get("HTTP_HOST", "")
    if S3Response.subdomain_based_buckets(SimpleNamespace(headers={"host": host}, url="")):
        path = f"/{host.split('.')[0]}{path}"
    if "/" in path.lstrip("/").rstrip("/"):
        source = unquote(environ.get("HTTP_X_AMZ_COPY_SOURCE", "")).partition("?")[0]
        return {hash(name.strip("/")) % WINDOWS for name in (path, source) if name}
    # Other services of moto are reached by a POST to the root, and are none of S3's business.
    return set(range(WINDOWS)) if changing and path.strip("/") else set()


def _receive(environ: dict[str, Any]) -> bool:
    """The request's body is in memory, where moto would put it anyway; False: the client left before its end."""
    length = environ.get("CONTENT_LENGTH")
    source = environ["wsgi.input"]
    body = source.read(int(length)) if length else source.read() if environ.get("wsgi.input_terminated") else b""
    environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
    return not length or len(body) == int(length)


def _cut(start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("400 Bad Request", [("Content-Type", "application/xml")])
    return [b"<Error><Code>IncompleteBody</Code><Message>The body ended before its Content-Length.</Message></Error>"]
