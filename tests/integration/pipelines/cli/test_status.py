"""Test the command `status` on a real lake: what it says of a model as its events come."""

import datetime as dt
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.costs.ledger import SCHEMA, Ledger
from pipelines.dataset import load_dataset
from pipelines.errors import SpecError
from pipelines.lake import Lake
from pipelines.loop import events as loop_events
from pipelines.loop.journal import Journal as LoopJournal
from pipelines.monitoring import results_table
from pipelines.registry.lifecycle import Event, Journal, Kind
from pipelines.status.model_status import ModelStatus, read_status
from tests.tools.imports import ROOT

DAY = dt.date(2013, 1, 3)


def read() -> ModelStatus:
    return read_status("flights", load_dataset("flights"))


def add_event(kind: Kind, version: str, **fields: Any) -> None:
    """Add an event of the registry."""
    event = Event.create(kind, "flights", version, key=f"{dt.datetime.now()}", **fields)
    Journal.open().append_event("flights", lambda _: event)


def add_loop_event(kind: loop_events.Kind, run: str, **fields: Any) -> None:
    """Add an event of the loop."""
    event = loop_events.Event.create(kind, "flights", run, key=f"{dt.datetime.now()}", **fields)
    LoopJournal.open().append_event("flights", lambda _: event)


def write_drift(day: dt.date, outcome: str, reasons: str, version: str = "2") -> None:
    """Write a decision about drift of a version."""
    row = {"date": day, "model_name": "flights", "model_version": version, "name": "distance", "measure": "psi"}
    row |= {"outcome": outcome, "reasons": reasons, "effect": 0.3, "rows": 100}
    Lake.open().write_partition(
        results_table.TABLE, day, pa.Table.from_pylist([row], schema=results_table.SCHEMA), ("date", "name")
    )


def test_model_without_events_has_no_champion(home: Any) -> None:
    status = read()
    assert (status.health, status.champion, status.champion_since) == ("no champion", "", None)
    assert (status.drift, status.newest_partition, status.last_training, status.endpoints) == (None, "", "", {})
    assert (status.month_usd, status.reason) == (0.0, "no version is champion")


def test_health_names_the_most_serious_finding(home: Any, source: Any) -> None:
    lake = Lake.open()
    for day in (DAY, DAY + dt.timedelta(1)):
        lake.write_partition("flights", day, source.read(day))
    add_event(Kind.JUDGED, "1", why="auc is 0.5", evidence={"verdict": "failed"})
    assert read().reason == "no version is champion; the last verdict, on version 1: auc is 0.5"
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    status = read()
    assert (status.health, status.reason, status.champion, status.newest_partition) == ("ok", "", "2", "2013-01-04")
    assert status.champion_since and status.champion_since.date() == dt.datetime.now(dt.UTC).date()
    write_drift(DAY + dt.timedelta(1), "drift", "distance drifted\nauc fell")
    write_drift(DAY, "none", "")
    status = read()
    assert (status.health, status.reason) == ("drift", "in the window up to 2013-01-04: distance drifted; auc fell")
    write_drift(DAY + dt.timedelta(3), "drift", "another version drifted", version="1")
    write_drift(DAY + dt.timedelta(2), "none", "nothing drifted")
    assert read().health == "ok", "the last decision counts"
    add_loop_event(loop_events.Kind.HELD_BACK, "r/1", guard="breaker", why="three failed", alert=True)
    assert read().reason == "the guard breaker holds trainings back: three failed"
    add_loop_event(loop_events.Kind.STARTED, "r/2", as_of=DAY, trigger="manual")
    assert (read().health, read().last_training) == ("ok", "2013-01-03 running")
    add_loop_event(loop_events.Kind.ENDED, "r/2", outcome="failed")
    status = read()
    assert (status.health, status.reason, status.last_training) == (
        *("failed", "the training r/2 failed"),
        "2013-01-03 failed",
    )
    add_event(Kind.DEPLOYED, "2", evidence={"endpoint": "flights"})
    assert read().endpoints == {"flights": "2"}
    add_event(Kind.DEPLOYMENT_FAILED, "3", why="rolled back by alarm", evidence={"endpoint": "flights"})
    assert read().reason == "version 3 was not deployed: rolled back by alarm"


def test_cost_is_that_of_the_model_in_this_month(home: Any) -> None:
    now = dt.datetime.now(dt.UTC)
    jobs = [("flights", now, 1.5), ("other", now, 7.0), ("flights", now - dt.timedelta(40), 9.0)]
    empty: dict[str, Any] = {field.name: None for field in SCHEMA}
    rows = [
        {**empty, "model": model, "created": created, "cost_usd": usd, "arn": f"arn:{number}", "project": "p"}
        for number, (model, created, usd) in enumerate(jobs)
    ]
    Ledger.open().add([{name: value for name, value in row.items() if name != "date"} for row in rows])
    assert read().month_usd == 1.5


def test_budget_is_compared_with_the_cost_of_all_models_of_the_project(
    home: Any, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(ROOT))
    fresh_settings()
    empty: dict[str, Any] = {field.name: None for field in SCHEMA if field.name != "date"}
    jobs = [("flights", "flights", 1.5), ("flight_delay", "flights", 7.0), ("flights", "other", 90.0)]
    now = dt.datetime.now(dt.UTC)
    Ledger.open().add(
        {**empty, "model": model, "project": project, "created": now, "cost_usd": usd, "arn": f"arn:{usd}"}
        for model, project, usd in jobs
    )
    assert (read().month_usd, read().project_month_usd, read().budget_usd) == (91.5, 8.5, 250.0)


def test_command_prints_a_table_or_json_and_refuses_an_unknown_model(home: Any) -> None:
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    cli = app.build_app("status")
    output = CliRunner().invoke(cli, ["status", "flights"], catch_exceptions=False).stdout
    assert "flights" in output and "2 since " in output
    (status,) = json.loads(CliRunner().invoke(cli, ["status", "flights", "--json"], catch_exceptions=False).stdout)
    assert (status["model"], status["health"], status["champion"]) == ("flights", "ok", "2")
    with pytest.raises(SpecError, match="the project has no models/NAME"):
        CliRunner().invoke(cli, ["status"], catch_exceptions=False)


def test_command_names_the_columns_that_are_over_their_bounds_without_an_alarm(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    show = partial(CliRunner().invoke, app.build_app("status"), ["status", "flights"], catch_exceptions=False)
    write_drift(DAY, "none", "nothing drifted")
    assert "no drift up to 2013-01-03:" not in show().stdout
    reasons = "1 column is over the bound, but not significantly: it may be chance\nx: psi 0.3, bound 0.1, p = 0.5"
    write_drift(DAY + dt.timedelta(1), "none", reasons)
    expected = "flights: no drift up to 2013-01-04: 1 column is over the bound, but not significantly: it may be chance"
    assert f"{expected}; x: psi 0.3, bound 0.1, p = 0.5" in show().stdout


def test_command_lists_the_models_of_the_project(
    home: Any, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(ROOT))
    fresh_settings()
    cli = app.build_app("status")
    statuses = json.loads(CliRunner().invoke(cli, ["status", "--json"], catch_exceptions=False).stdout)
    assert [status["model"] for status in statuses] == ["flight_delay", "flight_status", "flights"]
    with pytest.raises(SpecError, match="there is no model 'nothing'"):
        CliRunner().invoke(cli, ["status", "nothing"], catch_exceptions=False)
