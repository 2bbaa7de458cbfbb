"""The guards over a real lake: two at once, killed, data published again or broken, what people ask."""

import datetime as dt
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines.cli import loop
from pipelines.errors import DataError, SpecError, ValidationError
from pipelines.lake import Lake
from pipelines.loop.journal import Journal
from pipelines.steps import guard as guarding
from pipelines.steps import record_outcome as recording
from pipelines.steps import validate as validating
from pipelines.validation.results_table import SCHEMA, Evidence

ASKERS = 12
FORK = multiprocessing.get_context("fork")
AS_OF = "2013-01-10"


@pytest.fixture(autouse=True)
def lake(home: Path, source: Any) -> Lake:
    """A lake with the flights of four days, and the quality of none."""
    made = Lake.open()
    for n in (3, 4, 5, 6):
        day = dt.date(2013, 1, n)
        made.write_partition("flights", day, source.read(day))
    return made


def ask(run: str, as_of: str = AS_OF, trigger: str = "drift", **more: Any) -> guarding.GuardResult:
    given = {"model_name": "m", "run": run, "as_of": as_of, "trigger": trigger, **more}
    return guarding.run(guarding.GuardSpec.parse(given, "here"))


def record_outcome(run: str, version: str = "") -> recording.RecordOutcomeResult:
    return recording.run(recording.RecordOutcomeSpec(model_name="m", run=run, version=version))


def kinds() -> list[str]:
    return [str(one.kind) for one in Journal.open().state("m").events]


def cli(*arguments: str) -> str:
    return CliRunner().invoke(loop.app, arguments, catch_exceptions=False).stdout


# Two at once.


def asker(number: int, start: Any, told: Any) -> None:
    """In a process of its own."""
    start.wait()
    try:
        answer = ask(f"d/{number}")
        told.put(answer.guard or answer.outcome)
    except BaseException as error:  # the test tells it
        told.put(f"{type(error).__name__}: {error}")


def race(number: int) -> list[str]:
    start, told = FORK.Barrier(number), FORK.Queue()
    racers = [FORK.Process(target=asker, args=(n, start, told)) for n in range(number)]
    for one in racers:
        one.start()
    ended = [told.get() for _ in racers]
    for one in racers:
        one.join()
    return sorted(ended)


def test_of_twelve_that_ask_at_once_exactly_one_starts_and_no_event_is_lost() -> None:
    Journal.open()
    assert race(ASKERS) == ["same_data"] * (ASKERS - 1) + ["started"]
    assert sorted(kinds()) == ["held_back"] * (ASKERS - 1) + ["started"]


def test_without_compare_and_swap_more_than_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: each decides on what it saw at first, and adds its event whatever came in between."""
    real, seen = Journal.change, Journal.open().state("m")

    def blind(self: Journal, name: str, decide: Callable[[Any], Any]) -> Any:
        event = decide(seen)
        return real(self, name, lambda _: event)

    monkeypatch.setattr(Journal, "change", blind)
    assert race(4).count("started") > 1


# Killed.

BEGIN = """
import os, signal
from pipelines.lake.event_table import EventTable
from pipelines.cli.app import main

{name} = EventTable.{name}
def dying(*given):
    {body}
EventTable.{name} = dying
main()
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
KILLED = {
    "before its event": ("_append", KILL),
    "between event and result": ("change", f"change(*given); {KILL}"),
}


@pytest.mark.parametrize("when", KILLED)
def test_a_guard_that_is_killed_gives_the_same_answer_when_it_is_tried_again(when: str, commands: Any) -> None:
    name, body = KILLED[when]
    given = ("guard", "--model-name", "m", "--as-of", AS_OF, "--trigger", "drift", "--run", "d/1")
    died = commands.run(sys.executable, "-c", BEGIN.format(name=name, body=body), *given)
    assert died.code == -signal.SIGKILL, died.err
    assert kinds() == ["started"] * (when != "before its event")
    again = commands.step(*given)
    assert json.loads(again.out)["outcome"] == "started"
    assert ask("d/1").outcome == "started"
    assert kinds() == ["started"]
    assert ask("d/2").outcome == "held_back"
    assert kinds() == ["started", "held_back"]


def test_a_settle_that_is_killed_after_its_event_is_no_second_one(commands: Any) -> None:
    ask("d/1")
    given = ("record_outcome", "--model-name", "m", "--run", "d/1")
    name, body = KILLED["between event and result"]
    died = commands.run(sys.executable, "-c", BEGIN.format(name=name, body=body), *given)
    assert died.code == -signal.SIGKILL, died.err
    again = json.loads(commands.step(*given).out)
    assert (again["outcome"], again["changed"]) == ("failed", False)
    assert kinds() == ["started", "ended"]


# The same data.

LOOSE = {"cooldown_days": 0, "per_week": 1_000}


def test_the_same_moment_trains_again_only_where_a_day_was_published_anew(lake: Lake, day_rows: Any) -> None:
    ask("d/1", trigger="manual")
    record_outcome("d/1")
    assert ask("d/2", policy=LOOSE).guard == "same_data"
    rows = day_rows("2013-01-04")
    lake.write_partition("flights", dt.date(2013, 1, 4), rows)
    assert ask("d/3", policy=LOOSE).guard == "same_data", "the same rows change nothing"
    lake.write_partition("flights", dt.date(2013, 1, 9), day_rows("2013-01-09"))
    assert ask("d/4", policy=LOOSE).guard == "same_data", "nor does a day outside of the window"
    lake.write_partition("flights", dt.date(2013, 1, 4), rows.slice(1))
    assert ask("d/5", policy=LOOSE).outcome == "started"
    record_outcome("d/5")
    lake.write_partition("flights", dt.date(2013, 1, 4), rows)
    assert ask("d/6", policy=LOOSE).guard == "same_data", "what was put back has been trained on"


def test_another_moment_is_other_data() -> None:
    ask("d/1", trigger="manual")
    record_outcome("d/1")
    assert ask("d/2", "2013-01-11", policy=LOOSE).outcome == "started"


# The quality of the data.

WHOLE = {**LOOSE, "quality_days": 7}


def judge(lake: Lake, rows: pa.Table, **columns: Any) -> None:
    """The day is staged with these columns changed, and judged."""
    for name, value in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(name), pa.array([value] * len(rows), rows.schema.types[place]))
    day = rows["date"][0].as_py()
    lake.write_partition("flights_raw", day, rows)
    validating.run(validating.ValidateSpec(partition=day))


def test_drift_of_a_column_that_failed_validation_is_held_back_and_an_alert(lake: Lake, day_rows: Any) -> None:
    judge(lake, day_rows("2013-01-08"), weather_temp=None)
    told = ask("d/1", worst=["weather_temp"], policy=WHOLE)
    assert (told.guard, told.alert, told.until) == ("data_quality", True, None)
    assert "2013-01-08: info expect_column_values_to_not_be_null of weather_temp" in told.reason
    assert ask("d/2", worst="distance", policy=WHOLE).outcome == "started", "another column drifted"


def test_the_column_may_be_what_the_drifted_feature_is_made_of(lake: Lake, day_rows: Any) -> None:
    judge(lake, day_rows("2013-01-08"), plane_year=None)
    assert ask("d/1", worst="carrier, plane_age", policy=WHOLE).guard == "data_quality"
    assert ask("d/2", worst="plane_seats", policy=WHOLE).outcome == "started"


@pytest.mark.parametrize(("severity", "outcome"), [("warning", "held_back"), ("info", "started")])
def test_of_a_warning_on_several_columns_each_counts(lake: Lake, severity: str, outcome: str) -> None:
    row = dict.fromkeys(SCHEMA.names) | {"date": dt.date(2013, 1, 5), "dataset": "flights", "run": "r", "place": 0}
    row |= {"validated_at": dt.datetime.now(dt.UTC), "success": False, "severity": severity, "expectation": "greater"}
    Evidence(lake).add([row | {"column": "distance, sched_arr_time"}], dt.date(2013, 1, 5))
    assert ask("d/1", worst=["distance"], policy=WHOLE).outcome == outcome
    record_outcome("d/1")
    assert ask("d/2", "2013-01-11", worst=["carrier"], policy=WHOLE).outcome == "started"


def test_a_blocked_day_holds_back_whatever_drifted_and_only_in_its_window(lake: Lake, day_rows: Any) -> None:
    with pytest.raises(ValidationError):
        judge(lake, day_rows("2013-01-08"), distance=1)
    told = ask("d/1", worst="score", policy=WHOLE)
    assert told.guard == "data_quality"
    assert (
        "2013-01-08 was not published; 2013-01-08: critical expect_column_values_to_be_between of dist" in told.reason
    )
    assert ask("d/2", worst="score", policy={**WHOLE, "quality_days": 1}).outcome == "started"
    record_outcome("d/2")
    assert ask("d/3", "2013-01-15", policy=WHOLE).guard == "data_quality"
    assert ask("d/4", "2013-01-16", policy=WHOLE).outcome == "started", "the window has gone past it"


def test_a_day_that_was_mended_is_judged_by_its_last_validation(lake: Lake, day_rows: Any) -> None:
    with pytest.raises(ValidationError):
        judge(lake, day_rows("2013-01-08"), distance=1)
    judge(lake, day_rows("2013-01-08"))
    assert ask("d/1", worst="distance", policy=WHOLE).outcome == "started"


# The budget, and what became of it.


def test_a_worst_case_over_the_month_s_budget_is_held_back(
    tmp_path: Path, monkeypatch: Any, fresh_settings: Any
) -> None:
    def budget(month_usd: float) -> None:
        money = f"{{region: us-east-1, instance_types: [ml.m5.large], max_run_s: 3600, month_usd: {month_usd}}}"
        (tmp_path / "project" / "params.yaml").write_text(f"budget: {money}\nsnapshot: {{train_days: 3}}\n")

    (tmp_path / "project").mkdir()
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path / "project"))
    fresh_settings()
    budget(0.1)
    told = ask("d/1")
    assert told.guard == "budget"
    assert "0.1150 USD: more than the 0.1000 USD left" in told.reason
    assert ask("d/2", trigger="manual").outcome == "started", "a person may; the training itself asks the budget again"
    record_outcome("d/2")
    budget(0.2)
    assert ask("d/3", "2013-01-30").outcome == "started"


def judged(version: str, verdict: str) -> None:
    from pipelines.registry.lifecycle import Event, Kind
    from pipelines.registry.lifecycle import Journal as Registry

    event = Event.of(Kind.JUDGED, "m", version, evidence={"verdict": verdict}, key=verdict)
    Registry.open().change("m", lambda _: event)


def test_the_end_is_what_the_last_word_on_the_version_says() -> None:
    from pipelines.registry.lifecycle import Event, Kind
    from pipelines.registry.lifecycle import Journal as Registry

    for number, verdict in (("1", "passed"), ("2", "failed"), ("3", "undecided"), ("4", "undecided")):
        judged(number, verdict)
    Registry.open().change("m", lambda _: Event.of(Kind.APPROVED, "m", "4"))
    expected = {"1": "passed", "2": "not_passed", "3": "not_passed", "4": "passed", "5": "failed", "": "failed"}
    for version, outcome in expected.items():
        ask(f"d/{version}", trigger="manual")
        told = record_outcome(f"d/{version}", version)
        assert (told.outcome, told.changed) == (outcome, True)
    assert record_outcome("nobody's").outcome == ""


def test_a_run_has_to_be_named(monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    with pytest.raises(SpecError, match="no run is named"):
        ask("")
    monkeypatch.setenv("LEEWAY_RUN", "d/1")
    fresh_settings()
    ask("")
    assert Journal.open().state("m").events[0].run == "d/1"


def test_on_an_empty_lake_a_person_is_let_start(tmp_path: Path, monkeypatch: Any, fresh_settings: Any) -> None:
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "empty"))
    fresh_settings()
    assert ask("d/1", trigger="manual").outcome == "started"
    assert ask("d/2", worst="distance").outcome == "held_back"


# What people ask.


def test_events_status_and_reset_for_people() -> None:
    for n in range(3):
        ask(f"d/{n}", f"2013-0{n + 1}-10", reason="auc 0.61")
        record_outcome(f"d/{n}")
    ask("d/3", "2013-04-10", reason="auc 0.60")
    lines = cli("events", "m").splitlines()
    assert len(lines) == 7
    assert "2013-01-10  started" in lines[0] and "by drift (auc 0.61)  d/0" in lines[0]
    assert "2013-04-10  held_back  breaker" in lines[-1]
    assert "2013-01-10 failed, as of 2013-02-10 failed, as of 2013-03-10 failed" in lines[-1]
    told = cli("status", "m", "--as-of", "2013-04-11")
    assert "breaker       holds back: the last 3 trainings" in told
    assert "cooldown      lets through" in told
    assert told.endswith("m as of 2013-04-11: drift would be held back\n")
    assert cli("reset", "m", "--why", "the label was late") == "m: the breaker is closed again\n"
    assert "start a training" in cli("status", "m", "--as-of", "2013-04-11")
    assert kinds()[-2:] == ["held_back", "reset"], "a look changes nothing"
    assert ask("d/4", "2013-04-11").outcome == "started"
    told = cli("status", "m", "--as-of", "2013-04-12")
    assert "(until 2013-04-25)" in told and "in_flight     holds back: d/4" in told
    last = json.loads(cli("events", "m", "--json"))[-2]
    assert (last["kind"], last["why"]) == ("reset", "the label was late")


def test_a_model_without_events_and_a_reset_without_a_reason_are_refused() -> None:
    with pytest.raises(DataError, match="no event of 'nobody'"):
        cli("events", "nobody")
    with pytest.raises(DataError, match="no event of 'nobody'"):
        cli("reset", "nobody", "--why", "a typo must not look as if the breaker were closed")
    with pytest.raises(SpecError, match="why"):
        cli("reset", "m", "--why", " ")
    with pytest.raises(SpecError, match="as_of"):
        cli("status", "m", "--as-of", "March")
