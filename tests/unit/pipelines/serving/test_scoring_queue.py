"""Requests that wait at the same time are computed together, and a request that comes alone does not wait."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pipelines.serving import scoring_queue
from pipelines.serving.batches import Batch, Request, RequestScores
from pipelines.serving.scoring_queue import ScoringQueue
from pipelines.serving.served_model import ServedModel


@dataclass
class Worker:
    """Stands for the computation of features and scores: the features of the first request take until `release`."""

    sizes: list[int] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def compute_batches(self, _: Any, requests: list[Request]) -> tuple[list[Batch], dict[int, Exception]]:
        self.sizes.append(len(requests))
        self.started.set()
        assert self.release.wait(60)
        errors: dict[int, Exception] = {
            number: ValueError("bad") for number, request in enumerate(requests) if request.body == b"bad"
        }
        numbers = [number for number in range(len(requests)) if number not in errors]
        return [Batch(numbers, [1] * len(numbers), cast("Any", [requests[number].body for number in numbers]))], errors

    def score_batch(self, _: Any, batch: Any, __: None) -> list[RequestScores | Exception]:
        return [RequestScores([body.decode()], {}) for body in batch.rows]


class Model:
    """A model without lookups."""

    lookups = None


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Return what computes instead of the features and the model."""
    worker = Worker()
    monkeypatch.setattr(scoring_queue, "compute_batches", worker.compute_batches)
    monkeypatch.setattr(scoring_queue, "score_batch", worker.score_batch)
    return worker


def send(worker: Worker, bodies: list[bytes]) -> list[Any]:
    """Send the first request, and the others while its features are computed; return the scores or errors."""

    async def run() -> list[Any]:
        queue = ScoringQueue(cast("ServedModel", Model()))
        tasks = [asyncio.create_task(queue.score(Request(bodies[0], "")))]
        await asyncio.to_thread(worker.started.wait, 60)
        tasks += [asyncio.create_task(queue.score(Request(body, ""))) for body in bodies[1:]]
        await asyncio.sleep(0)  # they are in the queue now
        worker.release.set()
        results: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        results.append(await queue.score(Request(b"later", "")))
        return [result.scores if isinstance(result, RequestScores) else str(result) for result in results]

    return asyncio.run(run())


def test_what_waits_is_taken_together_and_each_request_gets_its_own_answer(worker: Worker) -> None:
    results = send(worker, [b"first", b"a", b"bad", b"b"])
    assert results == [["first"], ["a"], "bad", ["b"], ["later"]]
    assert worker.sizes == [1, 3, 1]


def test_the_bytes_that_are_taken_together_are_bounded(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_queue, "MAX_BATCH_BYTES", 4)
    send(worker, [b"a" * 9, b"b" * 2, b"c" * 2, b"d", b"e" * 9, b"f"])
    assert worker.sizes == [1, 2, 1, 1, 1, 1]


def test_an_error_of_all_requests_is_the_answer_to_each(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_queue, "score_batch", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        send(worker, [b"first", b"a"])


def test_a_client_that_goes_away_does_not_stop_the_others(worker: Worker) -> None:
    async def run() -> list[Any]:
        queue = ScoringQueue(cast("ServedModel", Model()))
        gone = asyncio.create_task(queue.score(Request(b"gone", "")))
        await asyncio.to_thread(worker.started.wait, 60)
        stays = asyncio.create_task(queue.score(Request(b"stays", "")))
        gone.cancel()
        worker.release.set()
        return (await stays).scores

    assert asyncio.run(run()) == ["stays"]
