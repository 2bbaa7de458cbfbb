"""Pages of jobs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.listing import list_page
from drydock.jobs.training.job import TrainingJob

Make = Callable[..., TrainingJob]


@pytest.fixture
def jobs(make_job: Make) -> list[TrainingJob]:
    """Five jobs, each a second younger than the one before, except that two are of the same moment."""
    found = [make_job(TrainingJobName=name) for name in ("c", "a", "b", "e", "d")]
    for number, job in enumerate(found):
        job.record.transitions[0].start = found[0].created_at + timedelta(seconds=min(number, 3))
    return found


def names(answer: dict[str, Any]) -> list[str]:
    return [one["TrainingJobName"] for one in answer["TrainingJobSummaries"]]


def pages(jobs: list[TrainingJob], **request: Any) -> list[str]:
    found: list[str] = []
    token: dict[str, str] = {}
    while True:
        answer = list_page(jobs, {**request, **token}, "TrainingJobSummaries")
        found += names(answer)
        if "NextToken" not in answer:
            return found
        token = {"NextToken": answer["NextToken"]}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, "cabde"),
        ({"SortOrder": "Descending"}, "edbac"),
        ({"SortBy": "Name"}, "abcde"),
        ({"SortBy": "Status"}, "abcde"),
        ({"NameContains": "b"}, "b"),
        ({"StatusEquals": "Completed"}, ""),
        ({"WarmPoolStatusEquals": "Available"}, ""),
    ],
)
def test_every_job_is_shown_once(jobs: list[TrainingJob], request_: dict[str, Any], expected: str, size: int) -> None:
    assert "".join(pages(jobs, **request_, MaxResults=size)) == expected


def test_new_and_deleted_jobs_between_pages_hide_no_job(jobs: list[TrainingJob], make_job: Make) -> None:
    first = list_page(jobs, {"SortBy": "Name", "MaxResults": 2}, "TrainingJobSummaries")
    without = [job for job in jobs if job.name != "b"]
    more = [*without, make_job(TrainingJobName="aa")]
    rest = list_page(more, {"SortBy": "Name", "NextToken": first["NextToken"]}, "TrainingJobSummaries")
    assert names(first) == ["a", "b"] and names(rest) == ["c", "d", "e"]


@pytest.mark.parametrize("token", ["", "x", "bnVsbA==", "WzFd", "e30=", "\xff"])
def test_refuses_an_invalid_token(jobs: list[TrainingJob], token: str) -> None:
    with pytest.raises(AWSValidationException, match="pagination token"):
        list_page(jobs, {"NextToken": token}, "TrainingJobSummaries")
