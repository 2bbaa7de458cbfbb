"""ListTrainingJobs and its like: filtered, sorted, in pages."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.utils import parse_timestamp
from moto.sagemaker.exceptions import AWSValidationException

from drydock.jobs.job import Job

DEFAULT_PAGE = 10

Key = tuple[str, str]
SORT_KEYS: dict[str, Callable[[Job], str]] = {
    "Name": lambda job: job.name,
    "CreationTime": lambda job: job.created.isoformat(timespec="microseconds"),
    "Status": lambda job: str(job.status),
}


def page(jobs: Iterable[Job], request: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return one page of the jobs' summaries, and NextToken where there are more.

    A token names the last job that was shown, so that jobs made meanwhile neither repeat nor hide one.

    Args:
        jobs: All of the account and region.
        request: Of the List operation.
        member: What the answer calls the summaries.

    Raises:
        AWSValidationException: NextToken is none that this server gave.
    """
    sort_key = SORT_KEYS[request.get("SortBy", "CreationTime")]
    descending = request.get("SortOrder", "Ascending") == "Descending"

    def key(job: Job) -> Key:
        return sort_key(job), job.name

    # Documented of ListTrainingJobs: with MaxResults, a page is taken first, and its jobs of the status are shown.
    late = "MaxResults" in request and member == "TrainingJobSummaries"
    asked = {name: value for name, value in request.items() if not (late and name == "StatusEquals")}
    found = sorted((job for job in list(jobs) if _matches(job, asked)), key=key, reverse=descending)
    if "NextToken" in request:
        last = _read_token(request["NextToken"])
        found = [job for job in found if (key(job) < last if descending else key(job) > last)]
    size = request.get("MaxResults", DEFAULT_PAGE)
    answer: dict[str, Any] = {member: [job.summary() for job in found[:size] if _matches(job, request)]}
    if len(found) > size:
        answer["NextToken"] = _token(key(found[size - 1]))
    return answer


def _matches(job: Job, request: Mapping[str, Any]) -> bool:
    if "WarmPoolStatusEquals" in request or "TrainingPlanArnEquals" in request:
        return False  # no job of this server has either
    if request.get("NameContains", "") not in job.name:
        return False
    if request.get("StatusEquals", job.status) != job.status:
        return False
    created = _within(job.created, request, "CreationTime")
    return created and _within(job.record.modified, request, "LastModifiedTime")


def _within(moment: datetime, request: Mapping[str, Any], name: str) -> bool:
    after, before = request.get(f"{name}After"), request.get(f"{name}Before")
    return (after is None or moment > _moment(after)) and (before is None or moment < _moment(before))


def _moment(value: Any) -> datetime:
    parsed: datetime = parse_timestamp(value)
    return parsed.astimezone(UTC)


def _token(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _read_token(token: str) -> Key:
    try:
        first, second = json.loads(base64.urlsafe_b64decode(token))
        return str(first), str(second)
    except (ValueError, TypeError) as error:
        raise AWSValidationException("Invalid pagination token.") from error
