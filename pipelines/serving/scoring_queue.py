"""Score requests in threads beside the event loop. Requests that wait at the same time are computed together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from pipelines.serving.batches import Batch, Request, RequestScores, compute_batches, score_batch
from pipelines.serving.served_model import LOOKUP_THREADS, ServedModel

MAX_BATCH_BYTES = 256 * 1024
"""Largest size of bodies that are parsed together, bytes: the first request must not wait for large ones."""


class WaitingRequest(NamedTuple):
    """A request that waits for its scores."""

    request: Request
    result: asyncio.Future[RequestScores]


class ScoringQueue:
    """Scores requests. Requests that arrive while features are computed wait, and are then computed together.

    There is no timer: if no features are being computed, a request is computed at once. `compute_batches` decides which
    requests can be computed together.
    """

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._waiting_requests = deque[WaitingRequest]()
        self._tasks = set[asyncio.Task[None]]()
        self._is_computing = False
        # Features and scores have one thread each: a model need not be thread-safe, and DuckDB's connection is not. So
        # features are computed while other requests are scored, and meanwhile the event loop reads and answers.
        self._feature_worker = ThreadPoolExecutor(1, thread_name_prefix="features")
        self._score_worker = ThreadPoolExecutor(1, thread_name_prefix="score")
        # Lookups wait for the online store, so several threads make them.
        self._lookup_workers = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="look-up")

    async def score(self, request: Request) -> RequestScores:
        """Return the scores of a request.

        Raises:
            BadRequest: the request is wrong; a retry cannot help.
            Exception: anything else that computing or scoring raised.
        """
        result: asyncio.Future[RequestScores] = asyncio.get_running_loop().create_future()
        self._waiting_requests.append(WaitingRequest(request, result))
        if not self._is_computing:
            self._is_computing = True
            self._start(self._compute_waiting_requests())
        return await result

    async def _compute_waiting_requests(self) -> None:
        """Compute features until no request waits."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting_requests:
                requests, batches, errors = await loop.run_in_executor(
                    self._feature_worker, self._compute_next_requests
                )
                for number, error in errors.items():
                    _resolve(requests[number], error)
                for batch in batches:
                    self._start(self._score_batch(batch, [requests[position] for position in batch.positions]))
        finally:
            self._is_computing = False

    def _compute_next_requests(self) -> tuple[list[WaitingRequest], list[Batch], dict[int, Exception]]:
        """Take waiting requests from the queue, and compute their features."""
        requests = [self._waiting_requests.popleft()]
        size_bytes = len(requests[0].request.body)
        while self._waiting_requests and size_bytes + len(self._waiting_requests[0].request.body) <= MAX_BATCH_BYTES:
            requests.append(self._waiting_requests.popleft())
            size_bytes += len(requests[-1].request.body)
        try:
            return requests, *compute_batches(self._model, [waiting_request.request for waiting_request in requests])
        except Exception as error:  # otherwise the requests would wait for ever
            return requests, [], dict.fromkeys(range(len(requests)), error)

    async def _score_batch(self, batch: Batch, requests: Sequence[WaitingRequest]) -> None:
        loop, model = asyncio.get_running_loop(), self._model
        results: Sequence[RequestScores | Exception]
        try:
            lookup_result = None
            if model.lookups:
                lookup_result = await loop.run_in_executor(self._lookup_workers, model.look_up, batch.rows)
            results = await loop.run_in_executor(self._score_worker, score_batch, model, batch, lookup_result)
        except Exception as error:
            results = [error] * len(requests)
        for waiting_request, result in zip(requests, results, strict=True):
            _resolve(waiting_request, result)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task, and keep a reference to it until it ends: the event loop keeps only a weak reference."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _resolve(waiting_request: WaitingRequest, result: RequestScores | Exception) -> None:
    if waiting_request.result.done():  # the client has closed the connection
        return
    if isinstance(result, Exception):
        waiting_request.result.set_exception(result)
    else:
        waiting_request.result.set_result(result)
