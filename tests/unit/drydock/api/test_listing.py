"""Test pages of jobs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from moto.sagemaker.exceptions import AWSValidationException

from drydock.api.listing import encode_number, list_page
from drydock.jobs.training.job import TrainingJob

Make = Callable[..., TrainingJob]


@pytest.fixture
def jobs(make_job: Make) -> list[TrainingJob]:
    """Return five jobs, each a second younger than the one before; the last two have the same time."""
    jobs = [make_job(TrainingJobName=name) for name in ("c", "a", "b", "e", "d")]
    for number, job in enumerate(jobs):
        job.record.transitions[0].start = jobs[0].created_at + timedelta(seconds=min(number, 3))
    return jobs


def list_names(page: dict[str, Any]) -> list[str]:
    """List the names of the jobs of a page."""
    return [summary["TrainingJobName"] for summary in page["TrainingJobSummaries"]]


def read_all_pages(jobs: list[TrainingJob], **request: Any) -> list[str]:
    """List the names of the jobs of all pages."""
    names: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = list_page(jobs, {**request, **token}, "TrainingJobSummaries")
        names += list_names(page)
        if "NextToken" not in page:
            return names
        token = {"NextToken": page["NextToken"]}


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
    assert "".join(read_all_pages(jobs, **request_, MaxResults=size)) == expected


def test_new_and_deleted_jobs_between_pages_hide_no_job(jobs: list[TrainingJob], make_job: Make) -> None:
    first = list_page(jobs, {"SortBy": "Name", "MaxResults": 2}, "TrainingJobSummaries")
    remaining = [job for job in jobs if job.name != "b"]
    changed = [*remaining, make_job(TrainingJobName="aa")]
    rest = list_page(changed, {"SortBy": "Name", "NextToken": first["NextToken"]}, "TrainingJobSummaries")
    assert list_names(first) == ["a", "b"] and list_names(rest) == ["c", "d", "e"]


@pytest.mark.parametrize("token", ["", "x", "bnVsbA==", "WzFd", "e30=", "\xff"])
def test_invalid_token_is_refused(jobs: list[TrainingJob], token: str) -> None:
    with pytest.raises(AWSValidationException, match="pagination token"):
        list_page(jobs, {"NextToken": token}, "TrainingJobSummaries")


def test_texts_of_numbers_have_the_order_of_the_numbers() -> None:
    numbers = [-1e300, -2.0, -1.5, -1e-300, 0.0, 1e-300, 0.1, 0.25, 10.0, 1e300]
    texts = [encode_number(number) for number in numbers]
    assert texts == sorted(texts) and len(set(texts)) == len(numbers)


def test_status_filters_items_or_a_page(jobs: list[TrainingJob]) -> None:
    jobs[0].complete()
    request = {"SortBy": "Name", "StatusEquals": "Completed", "MaxResults": 2}
    assert list_names(list_page(jobs, request, "TrainingJobSummaries")) == ["c"]
    page = list_page(jobs, request, "TrainingJobSummaries", filters_page=True)
    assert list_names(page) == [] and "NextToken" in page
