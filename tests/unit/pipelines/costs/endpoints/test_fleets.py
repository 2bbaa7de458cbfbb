"""Test the instance hours of a time in which the number of instances changed."""

import datetime as dt

import pytest

from pipelines.costs.endpoints.fleets import CountChange, Fleet, compute_instance_usage, split_by_day

BEGIN = dt.datetime(2026, 10, 31, 22, 0, tzinfo=dt.UTC)


def at(hours: float) -> dt.datetime:
    return BEGIN + dt.timedelta(hours=hours)


@pytest.mark.parametrize(
    ("count", "changes", "expected"),
    [
        (2, [], (8, 0, 2)),
        (0, [], (0, 4, 0)),
        (1, [(1, 3), (2, 1)], (1 + 3 + 2, 0, 1)),
        (1, [(2, 1), (1, 3)], (1 + 3 + 2, 0, 1)),  # in any order
        (1, [(1, 0), (3, 2)], (1 + 2, 2, 2)),
        (1, [(-1, 9), (5, 9)], (4, 0, 1)),  # outside of the time
        (1, [(4, 2)], (4, 0, 2)),  # at the end: it counts from then on
        (1, [(0, 2)], (8, 0, 2)),
    ],
)
def test_instance_hours_and_hours_without_instance(count: int, changes: list, expected: tuple) -> None:
    usage = compute_instance_usage(at(0), at(4), count, [CountChange(at(hours), number) for hours, number in changes])
    assert (usage.instance_h, usage.zero_h, usage.instance_count) == pytest.approx(expected)


def test_a_time_is_split_at_midnight_of_utc() -> None:
    assert list(split_by_day(at(0), at(1))) == [(at(0), at(1))]
    assert list(split_by_day(at(0), at(27))) == [(at(0), at(2)), (at(2), at(26)), (at(26), at(27))]
    assert list(split_by_day(at(0), at(2))) == [(at(0), at(2))]
    assert list(split_by_day(at(1), at(1))) == [(at(1), at(1))]


def test_a_serverless_fleet_is_named_by_its_memory() -> None:
    fleet = Fleet("us-east-1", "e", "c", "v", memory_mb=3_072)
    assert (fleet.machine, fleet.key) == ("serverless 3 GB", ("us-east-1", "e", "c", "v"))
    assert Fleet("us-east-1", "e", "c", "v", "ml.m5.large").machine == "ml.m5.large"
