"""Answer the List operations of jobs, such as ListTrainingJobs: filter, sort, and split into pages."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.utils import parse_timestamp
from moto.sagemaker.exceptions import AWSValidationException

from drydock.jobs.job import Job

DEFAULT_PAGE_SIZE = 10

# The value to sort by, and the job's name.
SortKey = tuple[str, str]
SORT_VALUES: dict[str, Callable[[Job], str]] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.created_at.isoformat(timespec="microseconds"),
    "Status": lambda job: str(job.status),
}


def list_page(jobs: Iterable[Job], request: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return the response of a List operation: one page of job summaries, and NextToken if there are more.

    A token names the last job of its page. So if a job is created between two requests, each other job still appears
    exactly once.

    Args:
        jobs: All jobs of the account and region.
        request: The request of the List operation.
        member: Name of the summaries in the response, such as TrainingJobSummaries.

    Raises:
        AWSValidationException: NextToken is not a token of this server.
    """
    get_sort_value = SORT_VALUES[request.get("SortBy", "CreationTime")]
    is_descending = request.get("SortOrder", "Ascending") == "Descending"

    def build_sort_key(job: Job) -> SortKey:
        return get_sort_value(job), job.name

    # Documented for ListTrainingJobs: with MaxResults, a page is selected first, then StatusEquals filters that page.
    is_page_filtered = "MaxResults" in request and member == "TrainingJobSummaries"
    filters = {name: value for name, value in request.items() if not (is_page_filtered and name == "StatusEquals")}
    selected_jobs = sorted(
        (job for job in list(jobs) if _is_match(job, filters)), key=build_sort_key, reverse=is_descending
    )
    if "NextToken" in request:
        last_key = _parse_token(request["NextToken"])
        selected_jobs = [
            job
            for job in selected_jobs
            if (build_sort_key(job) < last_key if is_descending else build_sort_key(job) > last_key)
        ]
    size = request.get("MaxResults", DEFAULT_PAGE_SIZE)
    response: dict[str, Any] = {member: [job.summarize() for job in selected_jobs[:size] if _is_match(job, request)]}
    if len(selected_jobs) > size:
        response["NextToken"] = _make_token(build_sort_key(selected_jobs[size - 1]))
    return response


def _is_match(job: Job, filters: Mapping[str, Any]) -> bool:
    if "WarmPoolStatusEquals" in filters or "TrainingPlanArnEquals" in filters:
        return False  # jobs of this server have neither
    if filters.get("NameContains", "") not in job.name:
        return False
    if filters.get("StatusEquals", job.status) != job.status:
        return False
    is_created_within = _is_within(job.created_at, filters, "CreationTime")
    return is_created_within and _is_within(job.record.modified, filters, "LastModifiedTime")


def _is_within(time: datetime, filters: Mapping[str, Any], name: str) -> bool:
    after, before = filters.get(f"{name}After"), filters.get(f"{name}Before")
    return (after is None or time > _parse_time(after)) and (before is None or time < _parse_time(before))


def _parse_time(value: Any) -> datetime:
    time: datetime = parse_timestamp(value)
    return time.astimezone(UTC)


def _make_token(key: SortKey) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _parse_token(token: str) -> SortKey:
    try:
        value, name = json.loads(base64.urlsafe_b64decode(token))
        return str(value), str(name)
    except (ValueError, TypeError) as error:
        raise AWSValidationException("Invalid pagination token.") from error
