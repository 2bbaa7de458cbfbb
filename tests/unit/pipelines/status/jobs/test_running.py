"""Test how the jobs that run are read, with clients that only have the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.status.jobs.running import RunningJobsWriter


class JobsClient:
    """Answers as SageMaker does with one training job that runs, and counts the requests for tags.

    Args:
        name: name of the job.
        tags: its tags.
    """

    def __init__(self, name: str, tags: dict[str, str]) -> None:
        self.name, self.tags = name, [{"Key": key, "Value": value} for key, value in tags.items()]
        self.tag_requests: list[str] = []

    def list_training_jobs(self, **_: Any) -> dict[str, Any]:
        return {"TrainingJobSummaries": [{"TrainingJobName": self.name, "TrainingJobArn": f"arn:{self.name}"}]}

    def list_processing_jobs(self, **_: Any) -> dict[str, Any]:
        return {"ProcessingJobSummaries": []}

    def list_transform_jobs(self, **_: Any) -> dict[str, Any]:
        return {"TransformJobSummaries": []}

    def get_paginator(self, _: str) -> JobsClient:
        return self

    def paginate(self, *, ResourceArn: str) -> Iterator[dict[str, Any]]:
        self.tag_requests.append(ResourceArn)
        return iter([{"Tags": self.tags}])


@pytest.mark.parametrize("tags", [{}, {"team": "research"}], ids=["without tags", "with tags of others"])
def test_the_tags_of_a_job_are_read_once(home: Path, monkeypatch: pytest.MonkeyPatch, tags: dict[str, str]) -> None:
    monkeypatch.setattr("pipelines.status.jobs.running.INTERVAL_S", 0.0)
    client = JobsClient("first", tags)
    writer = RunningJobsWriter(lambda _: client)
    assert [writer.write_if_due() for _ in range(3)] == [True] * 3
    assert client.tag_requests == ["arn:first"]
    client.name = "second"
    assert writer.write_if_due()
    client.name = "first"
    assert writer.write_if_due()
    assert client.tag_requests == ["arn:first", "arn:second", "arn:first"], "the tags of ended jobs are not kept"
