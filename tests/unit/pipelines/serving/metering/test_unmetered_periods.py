"""Test the periods that a metering charges, from the ledger, the events and the endpoints that exist."""

import datetime as dt
from typing import Any

import pytest

from pipelines.costs.endpoints.fleets import CountChange, Fleet
from pipelines.registry.lifecycle import Event, Kind
from pipelines.serving.metering import history
from pipelines.serving.metering.observation import LiveFleet
from pipelines.serving.metering.unmetered_periods import UnmeteredPeriod, UnmeteredPeriodFinder, add_missing_change

REGION = "us-east-1"


def at(hours: float) -> dt.datetime:
    return dt.datetime(2026, 11, 2, tzinfo=dt.UTC) + dt.timedelta(hours=hours)


def make_fleet(config: str = "a", endpoint: str = "boats") -> Fleet:
    return Fleet(REGION, endpoint, config, "AllTraffic", "ml.m5.large", 0, "boats", "boat")


def make_live(config: str = "a", begin: float = 0, count: int | None = 1, **fields: Any) -> LiveFleet:
    values = {"initial_count": 1, "changed_at": at(begin), "is_pending": False, **fields}
    return LiveFleet(make_fleet(config), at(begin), count=count, **values)


def make_row(config: str = "a", end: float = 4, instances: int = 1, running: bool = True) -> dict[str, Any]:
    return {**vars(make_fleet(config)), "end": at(end), "instances": instances, "running": running}


def make_event(kind: Kind, hours: float, config: str = "a", count: int = 1, region: str = REGION) -> Event:
    evidence = {"endpoint": "boats", "config": config, "region": region, "project": "boat"}
    instances = {"instance_type": "ml.m5.large", "instance_count": count} if kind is Kind.DEPLOYED else {}
    event = Event.create(kind, "boats", "1", evidence={**evidence, **instances})
    return Event(**{**vars(event), "at": at(hours)})


def find(
    *live: LiveFleet, rows: tuple = (), events: tuple = (), now: float = 10, last_report: float | None = None
) -> list[tuple]:
    """Return configuration, begin, end, count and running of each period; hours since the first moment."""
    last_rows = {(REGION, "boats", row["config"], "AllTraffic"): row for row in rows}

    def find_last_report(*_: Any) -> dt.datetime | None:
        return None if last_report is None else at(last_report)

    periods = UnmeteredPeriodFinder(last_rows, events, live, find_last_report, at(now)).find()
    return [
        (item.fleet.config, *((moment - at(0)).total_seconds() / 3_600 for moment in (item.begin, item.end)),
         item.instance_count, item.is_running)
        for item in periods
    ]  # fmt: skip


def test_a_fleet_is_charged_since_it_was_created_and_then_since_it_was_metered() -> None:
    assert find(make_live(begin=2, initial_count=3)) == [("a", 2, 10, 3, True)]
    assert find(make_live(begin=2), rows=(make_row(end=4, instances=2),)) == [("a", 4, 10, 2, True)]
    closed = make_row(end=4, running=False)
    assert find(make_live(begin=6), rows=(closed,)) == [("a", 6, 10, 1, True)], "deployed again"
    assert find(rows=(closed,)) == [], "it has ended, and that is in the ledger"


def test_a_configuration_that_is_older_than_its_use_begins_after_the_last_metering() -> None:
    assert find(make_live("b", begin=0), rows=(make_row("a", end=4),)) == [
        ("b", 4, 10, 1, True),
        ("a", 4, 4, 1, False),
    ]


def test_a_replaced_fleet_is_charged_until_the_deployment_ended() -> None:
    live, row = make_live("b", begin=6), make_row("a", end=4)
    deployed = make_event(Kind.DEPLOYED, 7, "b")
    assert find(live, rows=(row,), events=(deployed,)) == [("b", 6, 10, 1, True), ("a", 4, 7, 1, False)]
    assert find(live, rows=(row,)) == [("b", 6, 10, 1, True), ("a", 4, 6, 1, False)], "without an event"


def test_both_fleets_of_a_deployment_in_progress_are_charged_and_a_failed_one_until_it_failed() -> None:
    pending = make_live("b", begin=9, count=None, is_pending=True)
    assert find(make_live("a"), pending, rows=(make_row("a"),)) == [("a", 4, 10, 1, True), ("b", 9, 10, 1, True)]
    failed = make_event(Kind.DEPLOYMENT_FAILED, 11, "b")
    assert find(make_live("a"), rows=(make_row("a", 10), make_row("b", 10)), events=(failed,), now=12) == [
        ("a", 10, 12, 1, True),
        ("b", 10, 11, 1, False),
    ]


def test_a_deleted_endpoint_is_charged_until_its_event_or_its_last_sign() -> None:
    row = make_row(end=4)
    assert find(rows=(row,), events=(make_event(Kind.UNDEPLOYED, 6, ""),)) == [("a", 4, 6, 1, False)]
    assert find(rows=(row,), last_report=5) == [("a", 4, 5, 1, False)]
    assert find(rows=(row,)) == [("a", 4, 4, 1, False)], "nothing more is known"
    elsewhere = make_event(Kind.UNDEPLOYED, 6, "", region="eu-west-1")
    assert find(rows=(row,), events=(elsewhere,)) == [("a", 4, 4, 1, False)], "an event of another region"
    assert find(rows=(row,), events=(make_event(Kind.UNDEPLOYED, 3, ""),)) == [("a", 4, 4, 1, False)], "an old event"


def test_an_endpoint_that_was_created_again_is_not_charged_for_the_time_between() -> None:
    undeployed = make_event(Kind.UNDEPLOYED, 5, "")
    assert find(make_live(begin=8), rows=(make_row(end=4),), events=(undeployed,)) == [
        ("a", 8, 10, 1, True),
        ("a", 4, 5, 1, False),
    ]


EVENTS = (
    make_event(Kind.DEPLOYED, 1, "a", count=2),
    make_event(Kind.DEPLOYED, 3, "b"),
    make_event(Kind.DEPLOYMENT_FAILED, 4, "x"),
    make_event(Kind.DEPLOYED, 4.5, "b"),
    make_event(Kind.UNDEPLOYED, 5, ""),
)


def test_deployments_that_no_metering_saw_are_charged_by_their_events_once() -> None:
    assert find(events=EVENTS) == [("a", 1, 3, 2, False), ("b", 3, 5, 1, False)]
    metered = (make_row("a", 3, running=False), make_row("b", 5, running=False))
    assert find(rows=metered, events=EVENTS) == []
    assert find(make_live("c", begin=6), events=EVENTS)[1:] == [("a", 1, 3, 2, False), ("b", 3, 5, 1, False)]
    assert find(make_live("b", begin=2), events=EVENTS[:2]) == [("b", 2, 10, 1, True), ("a", 1, 3, 2, False)]


def find_replaced(rows: tuple = (), events: tuple = EVENTS) -> dict[str, bool]:
    """Return by configuration whether another one replaced it; no endpoint exists."""
    last_rows = {(REGION, "boats", row["config"], "AllTraffic"): row for row in rows}
    periods = UnmeteredPeriodFinder(last_rows, events, (), lambda *_: None, at(10)).find()
    return {item.fleet.config: item.is_replaced for item in periods}


def test_a_replaced_fleet_is_not_a_deleted_one_although_nothing_exists_any_more() -> None:
    """Requests of a serverless endpoint count for the fleet that replaced another one in their hour, and only once."""
    assert find_replaced() == {"a": True, "b": False}
    assert find_replaced(rows=(make_row("a", 2),)) == {"a": True, "b": False}
    assert find_replaced(rows=(make_row("a", 2),), events=EVENTS[-1:]) == {"a": False}


def test_events_of_earlier_versions_of_leeway_name_no_instances() -> None:
    event = make_event(Kind.DEPLOYED, 1)
    old_event = Event(**{**vars(event), "evidence": {"endpoint": "boats", "config": "a"}})
    assert find(events=(old_event,)) == []


@pytest.mark.parametrize(
    ("last_change", "changes", "expected"),
    [
        (None, [(2, 3)], [(2, 3)]),
        ((1, 1), [], []),
        ((2, 3), [], [(2, 3)]),  # by hand
        ((1, 3), [(2, 2)], [(2, 2), (2, 3)]),  # not before the last known change
        ((9, 3), [], [(4, 3)]),
        ((-2, 3), [], [(0, 3)]),
        ((3, 2), [(2, 2), (-1, 7), (5, 9)], [(2, 2)]),
    ],
)
def test_number_of_instances_is_corrected_to_the_present_one(last_change: Any, changes: list, expected: list) -> None:
    present = CountChange(at(last_change[0]), last_change[1]) if last_change else None
    period = UnmeteredPeriod(make_fleet(), at(0), at(4), 1, is_running=True, last_change=present)
    result = add_missing_change(period, [CountChange(at(hours), count) for hours, count in changes])
    assert [((item.at - at(0)).total_seconds() / 3_600, item.count) for item in result] == expected


def test_project_of_an_unknown_model_is_empty(home: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.settings import settings

    (tmp_path / "models/boats").mkdir(parents=True)
    (tmp_path / "params.yaml").write_text("budget: {project: fleet}\n")
    (tmp_path / "models/boats/params.yaml").write_text("budget: {project: boat}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    settings.cache_clear()
    assert [history.find_endpoint_project(*pair) for pair in (("", "boats"), ("", "trains"), ("rail", "trains"))] == [
        "boat", "", "rail",
    ]  # fmt: skip
