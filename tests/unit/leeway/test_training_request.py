"""Why a run trains and as of which moment, also from events that people made by hand."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.training_request import TrainingRequest, read_training_request

FIRST_OF_MAY = dt.datetime(2013, 5, 1, tzinfo=dt.UTC)
LATE, EARLY = (
    {"as_of": "2013-05-09", "reason": "auc 0.61", "worst": ["auc", "a,b"]},
    {"as_of": "2013-05-07", "reason": "psi", "worst": "carrier"},
)
NO_REASON = {"reason": "", "worst": []}


def read(
    *extras: Any, kind: str = "asset_triggered", date: dt.datetime | None = None, as_of: str | None = None
) -> TrainingRequest:
    events = {"flights_drift": [SimpleNamespace(extra=extra) for extra in extras]} if extras else {}
    run = SimpleNamespace(run_type=kind, logical_date=date)
    context: Any = {"params": {"as_of": as_of}, "dag_run": run, "triggering_asset_events": events}
    return read_training_request(context)


@pytest.mark.parametrize("extras", [(EARLY, LATE, {}), (LATE, EARLY)])
def test_the_event_with_the_latest_moment_counts_as_it_is(extras):
    assert read(*extras) == LATE | {"trigger": "drift"}
    assert read(EARLY) == EARLY | {"trigger": "drift"}


@pytest.mark.parametrize("extra", [{"as_of": None, "reason": "by hand"}, {"as_of": ""}, {}, None])
def test_an_event_without_a_moment_is_reported_as_that(extra):
    with pytest.raises(AirflowFailException, match="event names no as_of"):
        read(extra)
    assert read(extra, as_of="2013-04-01") == {"as_of": "2013-04-01", "trigger": "drift", **NO_REASON}
    assert read(extra, {"as_of": "2013-04-09"})["as_of"] == "2013-04-09"
    assert read(extra, date=FIRST_OF_MAY) == {"as_of": "2013-05-01", "trigger": "drift", **NO_REASON}


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [("manual", "manual"), ("scheduled", "schedule"), ("backfill", "backfill"), ("asset_triggered", "drift")],
)
def test_without_an_event_it_is_the_param_or_the_logical_date(kind, trigger):
    assert read(kind=kind, date=FIRST_OF_MAY) == {"as_of": "2013-05-01", "trigger": trigger, **NO_REASON}
    moment = read(LATE, kind=kind, date=FIRST_OF_MAY, as_of="2013-05-08")
    assert moment == {"as_of": "2013-05-08", "trigger": trigger, **NO_REASON}


def test_a_run_without_any_moment_fails_for_good():
    with pytest.raises(AirflowFailException, match="trigger it with the param as_of"):
        read(kind="manual")
