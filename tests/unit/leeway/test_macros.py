"""The moment of a training and who asks for it, of events as people make them by hand, too."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.macros import as_of, asked


def events(*extras: Any) -> dict[str, list[SimpleNamespace]]:
    return {"flights_drift": [SimpleNamespace(extra=extra) for extra in extras]}


def a_run(kind: str = "asset_triggered", logical_date: dt.datetime | None = None) -> SimpleNamespace:
    return SimpleNamespace(run_type=kind, logical_date=logical_date)


def test_the_event_of_the_latest_moment_counts() -> None:
    told = events({"as_of": "2013-04-08", "reason": "auc"}, {"as_of": "2013-04-09", "worst": ["a,b"]}, {})
    assert as_of({}, a_run(), told) == "2013-04-09"
    assert asked({}, a_run(), told) == {"trigger": "drift", "reason": "", "worst": '["a,b"]'}


@pytest.mark.parametrize("extra", [{"as_of": None, "reason": "by hand"}, {"as_of": ""}, {}, None])
def test_an_event_that_names_no_moment_is_told_as_that(extra: Any) -> None:
    with pytest.raises(AirflowFailException, match="event names no as_of"):
        as_of({}, a_run(), events(extra))
    assert as_of({"as_of": "2013-04-01"}, a_run(), events(extra)) == "2013-04-01"
    assert as_of({}, a_run(), events(extra, {"as_of": "2013-04-09"})) == "2013-04-09"
    assert asked({}, a_run(), events(extra))["trigger"] == "drift"


def test_without_an_event_it_is_the_logical_date() -> None:
    day = dt.datetime(2013, 4, 1, tzinfo=dt.UTC)
    assert as_of({}, a_run("scheduled", day), {}) == "2013-04-01"
    with pytest.raises(AirflowFailException, match="trigger it with the param as_of"):
        as_of({}, a_run("manual"), {})
