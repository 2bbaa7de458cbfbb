"""Check the values of a record against its feature group, and parse its event time."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from drydock.feature_store.group import FeatureGroup

MAX_VALUE_CHARS = 60
"""Largest part of a value in an error message."""
MICROSECONDS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# yyyy-MM-dd'T'HH:mm:ssZ and yyyy-MM-dd'T'HH:mm:ss.SSSZ
_EVENT_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
# Python's `int` and `float` accept underscores, spaces and digits of other scripts, too; Feature Store does not.
_NUMBER = re.compile(r"[-+.0-9A-Za-z]+")
# An Integral is a signed integer of 64 bits: 63 bits for the value, and one for the sign.
_INTEGER_BITS = 63
MAX_TIME = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""Latest event time and latest end of a TTL, microseconds since 1970."""


class InvalidRecord(Exception):
    """A request about a record is not valid: Feature Store's ValidationError. A retry cannot help."""


def parse_record(group: FeatureGroup, record: Sequence[Mapping[str, Any]]) -> tuple[str, int, dict[str, str]]:
    """Check the features of a record, and return its identifier, its event time and its values.

    Args:
        group: The record's group.
        record: Member Record of the request.

    Returns:
        The identifier, the event time in microseconds since 1970, and the values by the features' names.

    Raises:
        InvalidRecord: A feature is unknown or repeated or has a wrong value, or the identifier or the event time is
            missing.
    """
    values: dict[str, str] = {}
    types = group.types
    for feature in record:
        name = feature["FeatureName"]
        check_feature_names(group, [name])
        if name in values:
            raise InvalidRecord(f"Validation Error: the record has the feature {name} more than once.")
        if "ValueAsString" not in feature:
            raise InvalidRecord(
                f"Validation Error: the feature {name} needs a ValueAsString, since it is not a collection."
            )
        values[name] = feature["ValueAsString"]
        _check_value(name, types[name], values[name])
    for name in (group.identifier_name, group.event_time_name):
        if not values.get(name):
            raise InvalidRecord(f"Validation Error: the record must have a value of the feature {name}.")
    return values[group.identifier_name], parse_event_time(group, values[group.event_time_name]), values


def check_feature_names(group: FeatureGroup, names: Iterable[str]) -> None:
    """Check that a group has all of these features.

    Raises:
        InvalidRecord: The group lacks one of them. A retry cannot help.
    """
    for name in names:
        if name not in group.types:
            text = name[:MAX_VALUE_CHARS]
            raise InvalidRecord(f"Validation Error: FeatureGroup {group.name} has no feature with the name {text}.")


def parse_event_time(group: FeatureGroup, text: str) -> int:
    """Return an event time as microseconds since 1970.

    Raises:
        InvalidRecord: The text is not an event time of the group's type.
    """
    try:
        if group.types[group.event_time_name] == "Fractional":
            return _parse_seconds(text)
        if not _EVENT_TIME.fullmatch(text):
            raise ValueError("another format")
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, InvalidOperation):
        message = (
            f"Validation Error: the event time {text[:MAX_VALUE_CHARS]!r} is not valid. It must be Unix seconds for a "
            "Fractional feature, or yyyy-MM-dd'T'HH:mm:ssZ or yyyy-MM-dd'T'HH:mm:ss.SSSZ for a String feature."
        )
        raise InvalidRecord(message) from None


def compute_expiry(event_time: int, ttl_s: int) -> int:
    """Return when a record with a TTL expires, microseconds since 1970; at the latest `MAX_TIME`."""
    return min(event_time + ttl_s * MICROSECONDS, MAX_TIME)


def format_time(microseconds: int) -> str:
    """Format microseconds since 1970 as an ISO 8601 time with milliseconds."""
    return f"{_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _parse_seconds(text: str) -> int:
    """Return Unix seconds as microseconds."""
    seconds = Decimal(text) if _NUMBER.fullmatch(text) else Decimal("NaN")
    if not abs(seconds) <= MAX_TIME // MICROSECONDS:
        raise ValueError("not a number of seconds")
    return int(seconds * MICROSECONDS)


def _check_value(name: str, feature_type: str, text: str) -> None:
    try:
        if feature_type != "String" and not _NUMBER.fullmatch(text):
            raise ValueError("not a number")
        if feature_type == "Integral" and not -(2**_INTEGER_BITS) <= int(text) < 2**_INTEGER_BITS:
            raise ValueError("too large")
        if feature_type == "Fractional":
            float(text)
    except ValueError:
        short_text = text[:MAX_VALUE_CHARS]
        raise InvalidRecord(
            f"Validation Error: the value {short_text!r} of the feature {name} is not {feature_type}."
        ) from None
