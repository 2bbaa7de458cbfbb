"""Answer the asynchronous invocations in the stored queues, as many at a time as the endpoints' instances allow."""

import base64
import logging
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from drydock.endpoints.asynchronous.requests import AsyncRequest
from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.invocation import Invocation, InvocationError, InvocationResult, check_response
from drydock.endpoints.metrics import EndpointMetrics
from drydock.endpoints.serving import serve
from drydock.errors import RunFailed
from drydock.jobs.work import run_transfer
from drydock.resources import Owner, Resources
from drydock.settings import Settings
from drydock.store import Store
from drydock.transfer.objects import ObjectStore

log = logging.getLogger(__name__)

CHECK_S, BACKLOG_S = 0.1, 5.0
"""Seconds between two checks of the queues, and between two records of the backlog metrics."""
THREADS = 64
"""Largest number of asynchronous requests that are answered at the same time, of all endpoints together."""
MAX_INPUT_BYTES = 1 << 30
"""SageMaker's limit for the body of an asynchronous request."""

FindEndpoint = Callable[[Owner, str], Endpoint | None]
RecordResult = Callable[[Endpoint, Fleet, Invocation, InvocationResult, float], None]
"""The last argument: seconds to read the input and to invoke the model, without the time in the queue."""


class Key(NamedTuple):
    """The key of an endpoint's queue: its account and region, and its name."""

    owner: Owner
    endpoint: str


class AsyncInvocations:
    """The queues of the asynchronous requests to all endpoints. A request is stored until it is answered.

    Safe for several threads.

    Args:
        store: The server's storage.
        settings: The server's settings.
        metrics: Stores the metrics of the queues.
        find_endpoint: Returns an endpoint; None if it does not exist.
        record_result: Records an invocation of a model in the endpoint's metrics and its data capture.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        metrics: EndpointMetrics,
        find_endpoint: FindEndpoint,
        record_result: RecordResult,
    ) -> None:
        self._settings, self._metrics = settings, metrics
        self._find_endpoint, self._record_result = find_endpoint, record_result
        self._stored_requests = Resources(store, "async-invocation")
        self._lock, self._stop_event = threading.Lock(), threading.Event()
        self._queues: dict[Key, deque[AsyncRequest]] = {}
        self._running_counts: Counter[Key] = Counter()
        self._threads = ThreadPoolExecutor(THREADS, "async")
        self._next_backlog_at = 0.0
        for owner, text in self._stored_requests.iterate():
            request = AsyncRequest.load(text)
            self._queues.setdefault(Key(owner, request.endpoint), deque()).append(request)

    def start(self) -> None:
        """Begin to answer the requests, in the background."""
        threading.Thread(target=self._run, name="async", daemon=True).start()

    def close(self) -> None:
        """Stop answering. Requests without an answer stay stored: the server answers them after its next start."""
        self._stop_event.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def submit(self, owner: Owner, request: AsyncRequest) -> None:
        """Store a request, and answer it in the background."""
        self._stored_requests.write(owner, request.id, request.dump())
        with self._lock:
            self._queues.setdefault(Key(owner, request.endpoint), deque()).append(request)

    def discard(self, owner: Owner, endpoint: str) -> None:
        """Delete the waiting requests of an endpoint that was deleted."""
        with self._lock:
            requests = self._queues.pop(Key(owner, endpoint), deque())
        for request in requests:
            self._stored_requests.delete(owner, request.id)

    def _run(self) -> None:
        while not self._stop_event.wait(CHECK_S):
            is_backlog_due = time.monotonic() >= self._next_backlog_at
            if is_backlog_due:
                self._next_backlog_at = time.monotonic() + BACKLOG_S
            for key in list(self._queues):
                try:
                    self._begin_requests(key, is_backlog_due)
                except Exception:  # the other endpoints must be served
                    log.exception("asynchronous requests of %s: internal error", key.endpoint)

    def _begin_requests(self, key: Key, is_backlog_due: bool) -> None:
        """Begin to answer requests of one queue: the expired ones, and as many others as the instances can take now."""
        endpoint = self._find_endpoint(*key)
        if endpoint is None:
            return self.discard(*key)
        fleet = endpoint.fleet
        instances = 0 if fleet is None else sum(map(fleet.count_ready, fleet.config.production_variants))
        with self._lock:
            queue = self._queues.get(key, deque())
            if is_backlog_due:
                self._metrics.record_backlog(*key, len(queue) + self._running_counts[key], instances)
            limit = 0 if fleet is None else instances * fleet.config.async_concurrency
            # An expired request needs no instance: it gets an error.
            expired_requests = [request for request in queue if request.is_expired]
            for request in expired_requests:
                queue.remove(request)
            count = max(min(limit - self._running_counts[key], len(queue)), 0)
            requests = [*expired_requests, *(queue.popleft() for _ in range(count))]
            self._running_counts[key] += len(requests)
        for request in requests:
            self._threads.submit(self._process, key, endpoint, request)

    def _process(self, key: Key, endpoint: Endpoint, request: AsyncRequest) -> None:
        """Answer a request, and record its result in the metrics. Then another request can begin.

        If the result cannot be recorded, the request stays stored: the server answers it again after its next start.
        """
        try:
            self._answer_and_record(key, endpoint, request)
        except Exception:
            log.exception("asynchronous request %s: internal error", request.inference_id)
        finally:
            with self._lock:
                self._running_counts[key] -= 1

    def _answer_and_record(self, key: Key, endpoint: Endpoint, request: AsyncRequest) -> None:
        began_at, is_expired, failure = time.time(), request.is_expired, ""
        try:
            if is_expired:
                raise RunFailed(
                    f"ClientError: the request waited for more than {request.ttl_s:g} seconds in the queue."
                )
            self._answer(key.owner, endpoint, request)
        except (InvocationError, RunFailed) as error:
            failure = str(error)
        except Exception as error:
            log.exception("asynchronous request %s: internal error", request.inference_id)
            failure = f"InternalServerError: {type(error).__name__}: {error}"
        if self._stop_event.is_set():
            return  # the request stays stored: the server answers it after its next start
        if failure and request.failure:
            self._write_failure(key.owner, request, failure)
        waited_s, total_s = began_at - request.submitted_at, time.time() - request.submitted_at
        self._metrics.record_async_result(
            *key, waited_s=waited_s, total_s=total_s, is_failed=bool(failure), is_expired=is_expired
        )
        self._stored_requests.delete(key.owner, request.id)

    def _answer(self, owner: Owner, endpoint: Endpoint, request: AsyncRequest) -> None:
        """Send a request to the model, and write the answer to S3.

        Raises:
            InvocationError: The endpoint does not serve, or the model did not answer, or answered with an error.
            RunFailed: S3 does not have the input, or does not accept the output.
        """
        objects, started_at = self._open_objects(owner), time.perf_counter()
        body = base64.b64decode(request.body)
        if request.input:
            description = f"cannot read the input {request.input}"
            body = run_transfer(description, lambda: objects.read(request.input, MAX_INPUT_BYTES))
        invocation = Invocation(body, request.headers, timeout_s=request.timeout_s)
        fleet, result = serve(endpoint, invocation, endpoint.name)
        if self._stop_event.is_set():
            return
        self._record_result(endpoint, fleet, invocation, result, time.perf_counter() - started_at)
        check_response(result.response, endpoint.name, owner)
        self._write(objects, request.output, result.response.body)

    def _write_failure(self, owner: Owner, request: AsyncRequest, failure: str) -> None:
        try:
            self._write(self._open_objects(owner), request.failure, failure.encode())
        except RunFailed as error:
            log.warning("asynchronous request %s: %s: %s", request.inference_id, error, failure)

    def _open_objects(self, owner: Owner) -> ObjectStore:
        settings = self._settings
        return ObjectStore(settings.objects_url, owner.account_id, owner.region, settings.s3_retry_s)

    def _write(self, objects: ObjectStore, uri: str, content: bytes) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()  # `objects.write` reads the file through another descriptor
            run_transfer(f"cannot write {uri}", lambda: objects.write(file, uri))
