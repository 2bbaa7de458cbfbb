"""Test how a run learns why and as of which request it trains, also from events that a person created."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.training_request import TrainingRequest, read_training_request

FIRST_OF_MAY = dt.datetime(2013, 5, 1, tzinfo=dt.UTC)
LATER_EVENT, EARLIER_EVENT = (
    {"as_of": "2013-05-09", "reason": "auc 0.61", "drifted_columns": ["auc", "a,b"]},
    {"as_of": "2013-05-07", "reason": "psi", "drifted_columns": "carrier"},
)
NO_REASON = {"reason": "", "drifted_columns": []}


def read(
    *extras: Any, kind: str = "asset_triggered", date: dt.datetime | None = None, as_of: str | None = None
) -> TrainingRequest:
    """Read the request of a run with these events."""
    events = {"flights_drift": [SimpleNamespace(extra=extra) for extra in extras]} if extras else {}
    run = SimpleNamespace(run_type=kind, logical_date=date)
    context: Any = {"params": {"as_of": as_of}, "dag_run": run, "triggering_asset_events": events}
    return read_training_request(context)


@pytest.mark.parametrize("extras", [(EARLIER_EVENT, LATER_EVENT, {}), (LATER_EVENT, EARLIER_EVENT)])
def test_event_with_the_latest_moment_counts(extras):
    assert read(*extras) == LATER_EVENT | {"trigger": "drift"}
    assert read(EARLIER_EVENT) == EARLIER_EVENT | {"trigger": "drift"}


@pytest.mark.parametrize("extra", [{"as_of": None, "reason": "by hand"}, {"as_of": ""}, {}, None])
def test_event_without_a_moment_is_refused_if_nothing_else_gives_one(extra):
    with pytest.raises(AirflowFailException, match="event names no as_of"):
        read(extra)
    assert read(extra, as_of="2013-04-01") == {"as_of": "2013-04-01", "trigger": "drift", **NO_REASON}
    assert read(extra, {"as_of": "2013-04-09"})["as_of"] == "2013-04-09"
    assert read(extra, date=FIRST_OF_MAY) == {"as_of": "2013-05-01", "trigger": "drift", **NO_REASON}


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [("manual", "manual"), ("scheduled", "schedule"), ("backfill", "backfill"), ("asset_triggered", "drift")],
)
def test_param_or_logical_date_gives_the_moment_without_an_event(kind, trigger):
    assert read(kind=kind, date=FIRST_OF_MAY) == {"as_of": "2013-05-01", "trigger": trigger, **NO_REASON}
    request = read(LATER_EVENT, kind=kind, date=FIRST_OF_MAY, as_of="2013-05-08")
    assert request == {"as_of": "2013-05-08", "trigger": trigger, **NO_REASON}


def test_run_without_a_moment_is_not_retried():
    with pytest.raises(AirflowFailException, match="trigger the DAG with the param as_of"):
        read(kind="manual")
