"""Serialise requests for the same S3 object, and store the changes of a request before it is answered."""

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
from drydock.s3_store.tables import S3Tables
from drydock.s3_store.transaction import Transaction
from drydock.wsgi import ErrorResponse, WsgiApplication, answer_error

log = logging.getLogger(__name__)

LOCK_COUNT = 64
READ_METHODS = ("GET", "HEAD", "OPTIONS")
INCOMPLETE_BODY = ErrorResponse(400, "IncompleteBody", "The body ended before its Content-Length.")


class S3Middleware:
    """WSGI middleware around moto that serialises requests for the same object, and stores their changes.

    moto 5.2.5 does not support a change of an object at the same time as another request for it: a version is lost, or
    a reader gets a closed file. Here a request takes one of LOCK_COUNT locks for each object that it names, chosen by
    the object's name. A request that changes a bucket takes all locks.

    Args:
        tables: Stores the objects.
        application: moto's application.
    """

    def __init__(self, tables: S3Tables, application: WsgiApplication) -> None:
        self._tables, self._application = tables, application
        self._locks = [threading.RLock() for _ in range(LOCK_COUNT)]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        lock_numbers = find_lock_numbers(environ)
        # The body is read first, since a client that sends slowly must not hold a lock.
        if lock_numbers and not _read_body(environ):
            return answer_error(environ, start_response, INCOMPLETE_BODY)
        with self._hold_locks(lock_numbers), self._tables.begin_transaction() as transaction:
            start_calls: list[tuple[Any, ...]] = []
            response = self._application(environ, lambda *arguments: start_calls.append(arguments))
            fault = self._store_changes(transaction, environ["REQUEST_METHOD"], str(start_calls[-1][0]))
        if fault:
            return fault(environ, start_response)
        start_response(*start_calls[-1])
        return response

    def _store_changes(self, transaction: Transaction, method: str, status: str) -> StorageFault | None:
        """Store the changes of a request. If moto refused the request, undo its changes of objects' versions first.

        Return an error response if the changes cannot be stored, else None.
        """
        if method in READ_METHODS and not transaction.earlier_versions:
            return None
        if status >= "4":
            # moto adds an object before it refuses the object's tags. The commit below deletes the file of this object.
            transaction.undo()
        try:
            self._tables.commit(transaction)
        except (sqlite3.Error, OSError, TypeError) as error:
            log.error("a request to S3 cannot be stored: %s", error)
            transaction.undo()
            transaction.delete_unused_files(self._tables.blobs)
            return StorageFault(f"The change cannot be stored: {error}.")
        return None

    @contextmanager
    def _hold_locks(self, lock_numbers: Iterable[int]) -> Iterator[None]:
        with ExitStack() as locks:
            # Always in the same order, so that two requests never wait for each other.
            for number in sorted(lock_numbers):
                locks.enter_context(self._locks[number])
            yield


def find_lock_numbers(environ: dict[str, Any]) -> set[int]:
    """Return the numbers of the locks that a request needs.

    They are the locks of the object in its path and of the object that it copies, or all locks if it changes a bucket.
    A request that only reads a bucket needs none.
    """
    path, is_write = str(environ.get("PATH_INFO", "/")), environ["REQUEST_METHOD"] not in READ_METHODS
    host = environ.get("HTTP_HOST", "")
    if S3Response.subdomain_based_buckets(SimpleNamespace(headers={"host": host}, url="")):
        path = f"/{host.split('.')[0]}{path}"
    if "/" in path.lstrip("/").rstrip("/"):
        copy_source = unquote(environ.get("HTTP_X_AMZ_COPY_SOURCE", "").partition("?")[0])
        return {hash(name.strip("/")) % LOCK_COUNT for name in (path, copy_source) if name}
    # A write to the root path is for another service of moto, and needs no lock of S3.
    return set(range(LOCK_COUNT)) if is_write and path.strip("/") else set()


def _read_body(environ: dict[str, Any]) -> bool:
    """Read the request's body into memory, as moto would. Return whether the whole body arrived."""
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    body = stream.read(int(length)) if length else stream.read() if environ.get("wsgi.input_terminated") else b""
    environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
    return not length or len(body) == int(length)
