"""Test how asynchronous requests are counted, and that each one frees its place, whatever fails."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drydock.endpoints.asynchronous import processor, requests
from drydock.endpoints.asynchronous.processor import AsyncInvocations, Key
from drydock.endpoints.asynchronous.requests import AsyncRequest
from drydock.endpoints.instances.connection_pool import ModelResponse
from drydock.endpoints.invocation import InvocationResult
from drydock.endpoints.records import ServedConfig, Variant
from drydock.resources import Owner
from drydock.settings import Settings
from drydock.store import Store

KEY = Key(Owner("123456789012", "us-east-1"), "e")
TTL_S = 60.0


class Queue:
    """The queue of an endpoint with one instance. Requests are answered in the thread of the test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.model_s, self.status = time.time(), 1.0, 200
        self.counts: list[tuple[bool, bool]] = []
        self.objects: dict[str, bytes] = {}
        self.broken_part = ""
        monkeypatch.setattr(requests, "time", SimpleNamespace(time=lambda: self.now))
        monkeypatch.setattr(processor, "serve", self._serve)
        fleet = SimpleNamespace(
            config=ServedConfig("c", [Variant("v", {}, "ml.m5.large", 1, 1.0)]), count_ready=lambda _: 1
        )
        self._endpoint = SimpleNamespace(name="e", fleet=fleet)
        metrics = SimpleNamespace(record_async_result=self._record)
        settings = Settings(folder, "http://127.0.0.1:1", 1, 1)
        self.invocations = AsyncInvocations(
            Store(folder / "db"), settings, cast(Any, metrics), lambda *_: cast(Any, self._endpoint), lambda *_: None
        )
        delete = self.invocations._stored_requests.delete
        monkeypatch.setattr(self.invocations._stored_requests, "delete", lambda *name: self._run("store", delete, name))
        monkeypatch.setattr(
            self.invocations, "_write", lambda _, uri, body: self.objects.update({uri.rpartition("/")[2]: body})
        )
        monkeypatch.setattr(self.invocations, "_threads", SimpleNamespace(submit=lambda call, *values: call(*values)))

    def answer(self, name: str, age_s: float = 0.0) -> None:
        """Submit a request that is so many seconds old, and let the queue begin what it may."""
        uris = (f"s3://bucket/{name}.out", f"s3://bucket/{name}-error.out")
        request = AsyncRequest("e", name, {}, *uris, "", "", TTL_S, 900, submitted_at=self.now - age_s)
        self.invocations.submit(KEY.owner, request)
        self.invocations._begin_requests(KEY, is_backlog_due=False)

    def _serve(self, *_: Any) -> Any:
        self.now += self.model_s
        return self._endpoint.fleet, InvocationResult("v", ModelResponse(self.status, b"1", "text/csv"), 1.0, 1)

    def _record(self, *_: Any, is_failed: bool, is_expired: bool, **__: float) -> None:
        self._run("metrics", lambda: self.counts.append((is_failed, is_expired)), ())

    def _run(self, part: str, call: Any, values: Any) -> Any:
        if part == self.broken_part:
            raise OSError(28, "No space left on device")
        return call(*values)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return Queue(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("age_s", "model_s", "status", "is_failed", "is_expired"),
    [
        (0.0, 1.0, 200, False, False),
        (0.0, TTL_S + 1, 200, False, False),
        (0.0, TTL_S + 1, 500, True, False),
        (TTL_S + 1, 1.0, 200, True, True),
    ],
    ids=["in time", "answered later than its TTL", "failed later than its TTL", "expired in the queue"],
)
def test_only_a_request_that_waited_too_long_is_expired(
    queue: Queue, age_s: float, model_s: float, status: int, is_failed: bool, is_expired: bool
) -> None:
    """RequestTTLSeconds is the age that a request may reach in the queue; InvocationTimeoutSeconds limits the model."""
    queue.model_s, queue.status, begin = model_s, status, queue.now
    queue.answer("one", age_s)
    assert queue.counts == [(is_failed, is_expired)]
    assert set(queue.objects) == {"one-error.out" if is_failed else "one.out"}
    assert (queue.now > begin) != is_expired, "the model gets no expired request"


@pytest.mark.parametrize("part", ["metrics", "store"])
@pytest.mark.parametrize("age_s", [0.0, TTL_S + 1])
def test_a_request_frees_its_place_also_if_its_result_cannot_be_stored(
    queue: Queue, part: str, age_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    queue.broken_part = part
    queue.answer("one", age_s)
    assert "one: internal error" in caplog.text
    queue.broken_part = ""
    queue.answer("two")
    assert "two.out" in queue.objects and queue.counts[-1] == (False, False)
    assert queue.invocations._running_counts[KEY] == 0
