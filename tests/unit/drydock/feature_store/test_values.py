"""Test which values of records are accepted, and the limits of event times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from drydock.feature_store.group import FeatureGroup
from drydock.feature_store.values import MAX_TIME, InvalidRecord, compute_expiry, format_time, parse_record

FEATURES = {"id": "String", "at": "Fractional", "count": "Integral", "wind": "Fractional"}
REQUEST: dict[str, Any] = {
    "RecordIdentifierFeatureName": "id",
    "EventTimeFeatureName": "at",
    "FeatureDefinitions": [{"FeatureName": name, "FeatureType": kind} for name, kind in FEATURES.items()],
}
GROUP = FeatureGroup("group", "arn", REQUEST, datetime(2013, 1, 1, tzinfo=UTC), [])


def parse(**values: str) -> tuple[str, int, dict[str, str]]:
    record = {"id": "JFK", "at": "1357000000.5", **values}
    return parse_record(GROUP, [{"FeatureName": name, "ValueAsString": value} for name, value in record.items()])


@pytest.mark.parametrize("at", ["1e30", "1e999999", "-1e30", "NaN", "Infinity", "1_000", " 1", "x"])
def test_event_times_that_cannot_be_stored_are_refused(at: str) -> None:
    with pytest.raises(InvalidRecord, match=r"is not (valid|Fractional)"):
        parse(at=at)


@pytest.mark.parametrize("values", [{"count": "1_000"}, {"count": " 5 "}, {"wind": "1_0.5"}, {"wind": "1 "}])
def test_numbers_that_only_python_reads_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(InvalidRecord, match=r"is not (Integral|Fractional)"):
        parse(**values)


def test_numbers_are_accepted() -> None:
    identifier, at, values = parse(count="-5", wind="1.5e-3")
    assert (identifier, at) == ("JFK", 1_357_000_000_500_000)
    assert (values["count"], values["wind"]) == ("-5", "1.5e-3")


def test_a_very_long_ttl_ends_at_the_latest_time() -> None:
    assert compute_expiry(5, 2) == 2_000_005
    assert compute_expiry(0, 2**31 * 604_800) == MAX_TIME and format_time(MAX_TIME).startswith("9999-12-31T23:59:59")
