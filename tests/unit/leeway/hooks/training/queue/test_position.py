"""Test the position of a service job in its queue, which is read for the log only."""

import asyncio
import logging
from typing import Any

import pytest
from botocore.exceptions import ClientError
from leeway.hooks.training.queue import position
from leeway.hooks.training.queue.position import PositionReader, find_position

SNAPSHOT = {"frontOfQueue": {"jobs": [{"jobArn": name} for name in "abc"], "lastUpdatedAt": 1}}


class Batch:
    """A client of AWS Batch whose responses are given. The last one is repeated."""

    def __init__(self, *responses: Any) -> None:
        self.responses, self.requests = list(responses), 0

    async def get_job_queue_snapshot(self, jobQueue: str) -> Any:
        """Return the next response, or raise it."""
        self.requests += 1
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(response, Exception):
            raise response
        return response


def make_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetJobQueueSnapshot")


def read_times(batch: Batch, count: int) -> list[int | None]:
    """Return the position of the job b, read several times."""
    reader = PositionReader("training", logging.getLogger("test"))

    async def read() -> list[int | None]:
        return [await reader.read(batch, "b") for _ in range(count)]

    return asyncio.run(read())


@pytest.mark.parametrize(("arn", "expected"), [("a", 1), ("c", 3), ("d", None)])
def test_the_position_is_that_among_the_first_jobs_of_the_queue(arn: str, expected: int | None) -> None:
    assert find_position(SNAPSHOT, arn) == expected
    assert find_position({}, arn) is None


def test_it_is_read_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(SNAPSHOT)
    assert (read_times(batch, 3), batch.requests) == ([2, 2, 2], 1)
    monkeypatch.setattr(position, "INTERVAL_S", 0.0)
    assert (read_times(batch, 3), batch.requests) == ([2, 2, 2], 4)


def test_an_error_never_ends_the_wait(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(position, "INTERVAL_S", 0.0)
    throttled = Batch(make_error("ThrottlingException"), SNAPSHOT)
    assert read_times(throttled, 2) == [None, 2]
    with caplog.at_level(logging.INFO):
        denied = Batch(make_error("AccessDeniedException"))
        assert (read_times(denied, 3), denied.requests) == ([None] * 3, 1), "it is not asked for again"
    assert caplog.text.count("the position in the queue is not known: ") == 1 and "AccessDenied" in caplog.text
