"""Answer the List operations, such as ListTrainingJobs and ListEndpoints: filter, sort, and split into pages."""

import base64
import json
import operator
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from botocore.utils import parse_timestamp
from moto.sagemaker.exceptions import AWSValidationException

DEFAULT_PAGE_SIZE = 10
"""Number of items in a page if the request has no MaxResults."""
NEWEST_FIRST = {"SortOrder": "Descending"}
"""Default order of ListModels, ListEndpoints, ListEndpointConfigs and ListFeatureGroups in SageMaker's API."""


class ListItem(Protocol):
    """A job or resource that a List operation lists."""

    @property
    def name(self) -> str:
        """Name of the item."""

    @property
    def status(self) -> str:
        """Status of the item."""

    @property
    def created_at(self) -> datetime:
        """When the item was created."""

    @property
    def modified_at(self) -> datetime:
        """When the item last changed."""

    def summarize(self) -> dict[str, Any]:
        """Return the item's entry in the response."""


SortKey = tuple[str, str]
"""The value by which an item is sorted, and the name of the item."""
SORT_VALUES: dict[str, Callable[[Any], str]] = {
    "Name": lambda item: item.name,
    "CreationTime": lambda item: item.created_at.isoformat(timespec="microseconds"),
    "Status": lambda item: str(item.status),
    # Only trials of tuning jobs are sorted by this value, and only trials that have an objective.
    "FinalObjectiveMetricValue": lambda item: encode_number(item.objective),
}


def list_page(
    items: Iterable[ListItem], request: Mapping[str, Any], member: str, *, filters_page: bool = False
) -> dict[str, Any]:
    """Return the response of a List operation: one page of summaries, and NextToken if there are more pages.

    A token names the last item of its page. So if an item is created between two requests, each other item still
    appears exactly once.

    Args:
        items: All jobs or resources of the account and region.
        request: The request of the List operation.
        member: Name of the summaries in the response, such as TrainingJobSummaries.
        filters_page: Whether StatusEquals filters only the items of a page if the request has MaxResults. Then the page
            may have fewer than MaxResults items.

    Raises:
        AWSValidationException: NextToken is not a token of this server. A retry cannot help.
    """
    get_sort_value = SORT_VALUES[request.get("SortBy", "CreationTime")]
    is_descending = request.get("SortOrder", "Ascending") == "Descending"

    def build_sort_key(item: ListItem) -> SortKey:
        return get_sort_value(item), item.name

    is_page_filtered = "MaxResults" in request and filters_page
    filters = {name: value for name, value in request.items() if not (is_page_filtered and name == "StatusEquals")}
    matching_items = (item for item in list(items) if _is_match(item, filters))
    selected_items = sorted(matching_items, key=build_sort_key, reverse=is_descending)
    if "NextToken" in request:
        last_key, compare = _parse_token(request["NextToken"]), operator.lt if is_descending else operator.gt
        selected_items = [item for item in selected_items if compare(build_sort_key(item), last_key)]
    size = request.get("MaxResults", DEFAULT_PAGE_SIZE)
    response: dict[str, Any] = {
        member: [item.summarize() for item in selected_items[:size] if _is_match(item, request)]
    }
    if len(selected_items) > size:
        response["NextToken"] = _make_token(build_sort_key(selected_items[size - 1]))
    return response


def encode_number(number: float) -> str:
    """Return a text for a number. Texts have the same order as their numbers."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number))
    # All bits of a negative number are inverted. A positive number keeps its bits, but its first bit becomes 1.
    ordered_bits = bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 1 << 63
    return f"{ordered_bits:016x}"


def _is_match(item: ListItem, filters: Mapping[str, Any]) -> bool:
    if "WarmPoolStatusEquals" in filters or "TrainingPlanArnEquals" in filters:
        return False  # jobs of this server have no warm pool and no training plan
    if filters.get("NameContains", "") not in item.name:
        return False
    if filters.get("StatusEquals", item.status) != item.status:
        return False
    is_created_within = _is_within(item.created_at, filters, "CreationTime")
    return is_created_within and _is_within(item.modified_at, filters, "LastModifiedTime")


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
