"""Test which versions may have answered the requests of some days."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from pipelines.registry.lifecycle import Event, Kind, State, compute_state
from pipelines.registry.lifecycle.deployments import find_released_versions
from pipelines.window import Days

FIRST = dt.date(2013, 2, 1)


def build_event(kind: Kind, version: str, day: int, endpoint: str = "flights") -> Event:
    event = Event.create(kind, "m", version, why="why", evidence={"endpoint": endpoint}, key=f"{version} {day}")
    return replace(event, at=dt.datetime(2013, 2, day, 12, tzinfo=dt.UTC))


def build_state() -> State:
    """Version 1 is deployed on day 1, 2 on day 3, 4 fails on day 5 and is deployed on day 7, and 9 elsewhere."""
    return compute_state(
        [
            build_event(Kind.DEPLOYED, "1", 1),
            build_event(Kind.DEPLOYED, "9", 2, "other"),
            build_event(Kind.DEPLOYED, "2", 3),
            build_event(Kind.DEPLOYMENT_FAILED, "4", 5),
            build_event(Kind.DEPLOYED, "4", 7),
            build_event(Kind.DEPLOYED, "2", 7),
        ]
    )


@pytest.mark.parametrize(
    ("first", "last", "versions"),
    [
        (2, 2, ["1"]),  # nothing was released on the day, and another endpoint does not count
        (2, 3, ["1", "2"]),  # the version before, and the new one
        (4, 5, ["2", "4"]),  # a canary that was rolled back
        (6, 6, ["2"]),  # the failed release is over
        (7, 7, ["2", "4"]),  # each version once, also after the way back
        (1, 1, ["1"]),  # a new endpoint
    ],
)
def test_versions_that_may_have_answered_on_the_days(first: int, last: int, versions: list[str]) -> None:
    days = Days(FIRST.replace(day=first), FIRST.replace(day=last))
    assert find_released_versions(build_state(), "flights", days) == versions


def test_before_the_first_deployment_there_is_none() -> None:
    days = Days(dt.date(2013, 1, 1), dt.date(2013, 1, 31))
    assert find_released_versions(build_state(), "flights", days) == []
    assert find_released_versions(State(), "flights", days) == []
