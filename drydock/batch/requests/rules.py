"""Check the members that several requests of AWS Batch have, and build the ARNs and the pages of responses."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from moto.utilities.utils import get_partition

from drydock.batch.errors import refuse
from drydock.batch.records import DISABLED, ENABLED
from drydock.resources import Owner

NAME_PATTERN = "[a-zA-Z0-9_-]{1,128}"
MAX_PAGE = 100
"""Largest number of items in a page."""
MAX_CAPACITY_UNITS = 5
"""Largest number of limits in the capacityLimits of a quota share."""

T = TypeVar("T")


def check_name(name: str, member: str) -> None:
    """Check a name: 1 to 128 letters, digits, hyphens and underscores.

    Raises:
        ClientException: The name is not valid.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        refuse(
            f"{member} {name[:140]!r} is not valid. It must have 1 to 128 letters, numbers, hyphens (-) and "
            "underscores (_)."
        )


def check_state(state: str, member: str = "state") -> str:
    """Check that a state is ENABLED or DISABLED, and return it.

    Raises:
        ClientException: The state is neither.
    """
    if state not in (ENABLED, DISABLED):
        refuse(f"{member} {state[:60]!r} is not valid. It must be {ENABLED} or {DISABLED}.")
    return state


def check_range(value: int, low: int, high: int, member: str) -> None:
    """Check that a number is in the range from low to high.

    Raises:
        ClientException: The number is not in the range.
    """
    if not low <= value <= high:
        refuse(f"{member} must be between {low} and {high}, not {value}.")


def check_capacity_limits(limits: Sequence[Mapping[str, Any]], *, is_quota_share: bool) -> None:
    """Check the capacityLimits of a service environment or of a quota share.

    Raises:
        ClientException: There is no limit, there are too many, one is not valid, or a unit has two.
    """
    if not limits:
        refuse("capacityLimits must have at least one limit.")
    if is_quota_share and len(limits) > MAX_CAPACITY_UNITS:
        refuse(f"capacityLimits can have at most {MAX_CAPACITY_UNITS} limits, not {len(limits)}.")
    units = [str(limit.get("capacityUnit", "")) for limit in limits]
    for limit, unit in zip(limits, units, strict=True):
        if not re.fullmatch(
            r"ml\.[a-z0-9-]+\.[a-z0-9-]+" if is_quota_share else r"NUM_INSTANCES|ml\.[a-z0-9.-]+", unit
        ):
            expected = "an instance type, such as ml.m5.large" + ("" if is_quota_share else ", or NUM_INSTANCES")
            refuse(f"capacityUnit {unit[:60]!r} is not valid. It must be {expected}.")
        if limit.get("maxCapacity", -1) < 0:
            refuse(f"maxCapacity of {unit} must be a number that is not negative.")
    if len(units) != len(set(units)):
        refuse(f"capacityLimits has a capacityUnit twice: {', '.join(units)}.")


def build_arn(owner: Owner, resource: str) -> str:
    """Return the ARN of a resource of AWS Batch, such as job-queue/NAME."""
    return f"arn:{get_partition(owner.region)}:batch:{owner.region}:{owner.account_id}:{resource}"


def build_page(items: Iterable[T], request: Mapping[str, Any]) -> tuple[list[T], dict[str, str]]:
    """Return the items of a page, and the member nextToken of the response; no member if this is the last page.

    Raises:
        ClientException: maxResults or nextToken is not valid.
    """
    size = request.get("maxResults", MAX_PAGE)
    check_range(size, 1, MAX_PAGE, "maxResults")
    all_items, begin = list(items), _parse_token(request.get("nextToken"))
    end = begin + size
    token = base64.urlsafe_b64encode(str(end).encode()).decode()
    return all_items[begin:end], {"nextToken": token} if end < len(all_items) else {}


def _parse_token(token: str | None) -> int:
    try:
        begin = int(base64.urlsafe_b64decode(token)) if token else 0
    except ValueError:
        begin = -1
    if begin < 0:
        refuse("nextToken is not valid.")
    return begin
