"""Test the guards and the loop's journal in a real lake: races, kills, republished or broken data, the commands."""

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

from pipelines import params
from pipelines.cli import loop
from pipelines.errors import DataError, SpecError, ValidationError
from pipelines.lake import Lake
from pipelines.loop.journal import Journal
from pipelines.steps import guard as guarding
from pipelines.steps import record_outcome as recording
from pipelines.steps import validate as validating
from pipelines.validation.results_table import SCHEMA, ResultsTable
from tests.tools.imports import ROOT
from tests.tools.saved_homes import SavedHome

FORK = multiprocessing.get_context("fork")
AS_OF = "2013-01-10"


@pytest.fixture(scope="module")
def four_days(save_home: Callable[..., SavedHome], source: Any) -> SavedHome:
    """Make a lake with the flights of four days and no validation results."""

    def write_days() -> None:
        for n in (3, 4, 5, 6):
            day = dt.date(2013, 1, n)
            Lake.open().write_partition("flights", day, source.read(day))

    return save_home(write_days)


@pytest.fixture
def home(four_days: SavedHome, restore_home: Callable[[SavedHome], Path]) -> Path:
    """Set LEEWAY_HOME to the lake of four days, as it was made."""
    return restore_home(four_days)


@pytest.fixture(autouse=True)
def lake(home: Path) -> Lake:
    """Return the lake of four days."""
    return Lake.open()


def run_guard(run: str, as_of: str = AS_OF, trigger: str = "drift", **fields: Any) -> guarding.GuardResult:
    """Run the step `guard`."""
    spec = {"dataset": "flights", "model": "m", "run": run, "as_of": as_of, "trigger": trigger, **fields}
    return guarding.run(guarding.GuardSpec.parse(spec, "test"))


def record_outcome(run: str, version: str = "") -> recording.RecordOutcomeResult:
    """Run the step `record_outcome`."""
    return recording.run(recording.RecordOutcomeSpec(model="m", run=run, version=version))


def list_kinds() -> list[str]:
    """List the kinds of the model's events."""
    return [str(event.kind) for event in Journal.open().read_state("m").events]


def run_cli(*arguments: str) -> str:
    return CliRunner().invoke(loop.app, arguments, catch_exceptions=False).stdout


# Several processes at once.


def race_guard(number: int, start: Any, outcomes: Any) -> None:
    """Run the guard as soon as all processes have started, and put its outcome into the queue."""
    start.wait()
    try:
        result = run_guard(f"d/{number}")
        outcomes.put(result.guard or result.outcome)
    except BaseException as error:  # the test shows it
        outcomes.put(f"{type(error).__name__}: {error}")


def race(number: int) -> list[str]:
    """Run the guard in so many processes at once; return their outcomes, sorted."""
    start, outcomes = FORK.Barrier(number), FORK.Queue()
    processes = [FORK.Process(target=race_guard, args=(n, start, outcomes)) for n in range(number)]
    for process in processes:
        process.start()
    results = [outcomes.get() for _ in processes]
    for process in processes:
        process.join()
    return sorted(results)


@pytest.mark.parametrize("processes", [4, pytest.param(12, marks=pytest.mark.soak)])
def test_only_one_of_many_processes_starts_and_no_event_is_lost(processes: int) -> None:
    Journal.open()
    assert race(processes) == ["same_data"] * (processes - 1) + ["started"]
    assert sorted(list_kinds()) == ["held_back"] * (processes - 1) + ["started"]


def test_without_compare_and_swap_more_than_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: each process decides on the state at its start, and adds its event in any case."""
    append, old_state = Journal.append_event, Journal.open().read_state("m")

    def append_without_check(self: Journal, name: str, decide: Callable[[Any], Any]) -> Any:
        event = decide(old_state)
        return append(self, name, lambda _: event)

    monkeypatch.setattr(Journal, "append_event", append_without_check)
    assert race(4).count("started") > 1


# Processes that are killed.

BEGIN = """
import os, signal
from pipelines.lake.event_table import EventTable
from pipelines.cli.app import main

{name} = EventTable.{name}
def append_and_die(*arguments):
    {body}
EventTable.{name} = append_and_die
main()
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
KILLED = {
    "before its event": ("_append_to_version", KILL),
    "between event and result": ("append_event", f"append_event(*arguments); {KILL}"),
}


@pytest.mark.parametrize("moment", KILLED)
def test_a_killed_guard_gives_the_same_outcome_when_it_is_retried(moment: str, commands: Any) -> None:
    name, body = KILLED[moment]
    command = (
        "guard",
        "--dataset",
        "flights",
        "--model",
        "m",
        "--as-of",
        AS_OF,
        "--trigger",
        "drift",
        "--run",
        "d/1",
    )
    process = commands.run(sys.executable, "-c", BEGIN.format(name=name, body=body), *command)
    assert process.code == -signal.SIGKILL, process.err
    assert list_kinds() == ["started"] * (moment != "before its event")
    repeat = commands.run_step(*command)
    assert json.loads(repeat.out)["outcome"] == "started"
    assert run_guard("d/1").outcome == "started"
    assert list_kinds() == ["started"]
    assert run_guard("d/2").outcome == "held_back"
    assert list_kinds() == ["started", "held_back"]


def test_record_outcome_that_is_killed_after_its_event_adds_no_second_one(commands: Any) -> None:
    run_guard("d/1")
    command = ("record_outcome", "--model", "m", "--run", "d/1")
    name, body = KILLED["between event and result"]
    process = commands.run(sys.executable, "-c", BEGIN.format(name=name, body=body), *command)
    assert process.code == -signal.SIGKILL, process.err
    repeat = json.loads(commands.run_step(*command).out)
    assert (repeat["outcome"], repeat["changed"]) == ("failed", False)
    assert list_kinds() == ["started", "ended"]


# The same data.

LOOSE = {"cooldown_days": 0, "per_week": 1_000}


def test_the_same_as_of_trains_again_only_after_a_day_has_changed(lake: Lake, day_rows: Any) -> None:
    run_guard("d/1", trigger="manual")
    record_outcome("d/1")
    assert run_guard("d/2", policy=LOOSE).guard == "same_data"
    rows = day_rows("2013-01-04")
    lake.write_partition("flights", dt.date(2013, 1, 4), rows)
    assert run_guard("d/3", policy=LOOSE).guard == "same_data", "the same rows change nothing"
    lake.write_partition("flights", dt.date(2013, 1, 9), day_rows("2013-01-09"))
    assert run_guard("d/4", policy=LOOSE).guard == "same_data", "a day outside of the window does not count"
    lake.write_partition("flights", dt.date(2013, 1, 4), rows.slice(1))
    assert run_guard("d/5", policy=LOOSE).outcome == "started"
    record_outcome("d/5")
    lake.write_partition("flights", dt.date(2013, 1, 4), rows)
    assert run_guard("d/6", policy=LOOSE).guard == "same_data", "a training has used the restored rows before"


def test_another_as_of_is_not_the_same_data() -> None:
    run_guard("d/1", trigger="manual")
    record_outcome("d/1")
    assert run_guard("d/2", "2013-01-11", policy=LOOSE).outcome == "started"


# The quality of the data.

SHIPPED_PARAMS = params.load(ROOT, "flights")


def validate_day(lake: Lake, rows: pa.Table, **columns: Any) -> None:
    """Write a day to the staging table, with these columns set to one value, and validate it."""
    for name, value in columns.items():
        position = rows.schema.get_field_index(name)
        rows = rows.set_column(
            position, rows.schema.field(name), pa.array([value] * len(rows), rows.schema.types[position])
        )
    day = rows["date"][0].as_py()
    lake.write_partition("flights_raw", day, rows)
    validating.run(validating.ValidateSpec(dataset="flights", partition=day))


def test_drift_of_a_column_that_failed_validation_is_held_back_with_an_alert(lake: Lake, day_rows: Any) -> None:
    validate_day(lake, day_rows("2013-01-08"), weather_temp=None)
    result = run_guard("d/1", drifted_columns=["weather_temp"], policy=LOOSE)
    assert (result.guard, result.alert, result.until) == ("data_quality", True, None)
    assert "2013-01-08: info expect_column_values_to_not_be_null of weather_temp" in result.reason
    assert run_guard("d/2", drifted_columns="distance", policy=LOOSE).outcome == "started", "another column drifted"


def test_a_failed_column_holds_back_the_features_that_are_built_from_it(lake: Lake, day_rows: Any) -> None:
    validate_day(lake, day_rows("2013-01-08"), plane_year=None)
    assert run_guard("d/1", drifted_columns="carrier, plane_age", policy=LOOSE).guard == "data_quality"
    assert run_guard("d/2", drifted_columns="plane_seats", policy=LOOSE).outcome == "started"


@pytest.mark.parametrize(("severity", "outcome"), [("warning", "held_back"), ("info", "started")])
def test_each_column_of_a_warning_counts(lake: Lake, severity: str, outcome: str) -> None:
    row = dict.fromkeys(SCHEMA.names) | {"date": dt.date(2013, 1, 5), "dataset": "flights", "run": "r", "place": 0}
    row |= {"validated_at": dt.datetime.now(dt.UTC), "success": False, "severity": severity, "expectation": "greater"}
    ResultsTable(lake).add([row | {"column": "distance, sched_arr_time"}], dt.date(2013, 1, 5))
    assert run_guard("d/1", drifted_columns=["distance"], policy=LOOSE).outcome == outcome
    record_outcome("d/1")
    assert run_guard("d/2", "2013-01-11", drifted_columns=["carrier"], policy=LOOSE).outcome == "started"


def test_an_unpublished_day_holds_back_any_drift_within_its_window_only(lake: Lake, day_rows: Any) -> None:
    with pytest.raises(ValidationError):
        validate_day(lake, day_rows("2013-01-08"), distance=1)
    result = run_guard("d/1", drifted_columns="score", policy=LOOSE)
    assert result.guard == "data_quality"
    assert (
        "2013-01-08 was not published; 2013-01-08: critical expect_column_values_to_be_between of dist" in result.reason
    )
    assert run_guard("d/2", drifted_columns="score", policy={**LOOSE, "quality_days": 0}).outcome == "started"
    record_outcome("d/2")
    assert run_guard("d/3", "2013-01-22", policy=LOOSE).guard == "data_quality"
    assert run_guard("d/4", "2013-01-23", policy=LOOSE).outcome == "started", "the day is before the window"


def block_day(lake: Lake, rows: pa.Table) -> None:
    """Have validation refuse a day."""
    with pytest.raises(ValidationError):
        validate_day(lake, rows, distance=1)


def test_a_blocked_day_anywhere_in_the_shipped_window_of_drift_holds_back(lake: Lake, day_rows: Any) -> None:
    """The policies are those of params.yaml. A window of drift ends on the day before `as_of`."""
    assert SHIPPED_PARAMS["drift"]["window_days"] == 14
    block_day(lake, day_rows("2013-01-08"))
    for days_back in (1, 7, 8, 10, 13, 14):
        as_of = dt.date(2013, 1, 8) + dt.timedelta(days_back)
        result = run_guard(f"d/{days_back}", str(as_of), drifted_columns="score", **SHIPPED_PARAMS["guard"])
        assert (result.outcome, result.guard) == ("held_back", "data_quality"), days_back
    # The control: the day is just outside of the window.
    result = run_guard("d/15", "2013-01-23", drifted_columns="score", **SHIPPED_PARAMS["guard"])
    assert result.outcome == "started"


@pytest.mark.parametrize(
    ("window_days", "quality_days", "last_day_held_back"),
    [(3, None, 3), (3, 5, 5), (3, 1, 3), (3, 0, 0), (20, None, 20), (None, None, 7)],
)
def test_the_window_may_be_longer_than_that_of_drift_and_not_shorter(
    lake: Lake,
    day_rows: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Any,
    window_days: int | None,
    quality_days: int | None,
    last_day_held_back: int,
) -> None:
    """Without a section drift, the window is that of the step's default."""
    block_day(lake, day_rows("2013-01-08"))
    section = f"drift: {{window_days: {window_days}}}\n" if window_days else ""
    (tmp_path / "params.yaml").write_text(f"{section}snapshot: {{train_days: 3}}\n")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    policy = LOOSE if quality_days is None else {**LOOSE, "quality_days": quality_days}
    for days_back, outcome in ((last_day_held_back, "held_back"), (last_day_held_back + 1, "started")):
        as_of = dt.date(2013, 1, 8) + dt.timedelta(days_back)
        if days_back:
            result = run_guard(f"d/{days_back}", str(as_of), drifted_columns="score", policy=policy)
            assert result.outcome == outcome, days_back


@pytest.mark.parametrize("metric", ["acu", "rmse"])
def test_refuses_a_policy_of_the_gate_that_does_not_fit_the_task_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, metric: str
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    for name in ("auc", metric):
        policy = f"gate: {{policy: {{bounds: {{{name}: {{at_least: 0.1}}}}}}}}\n"
        (tmp_path / "params.yaml").write_text(f"{policy}snapshot: {{train_days: 3}}\n")
        fresh_settings()
        if name == "auc":
            assert run_guard("d/1").outcome == "started"
        else:
            with pytest.raises(SpecError, match=f"the gate's policy names the metric '{metric}', which models"):
                run_guard("d/2", trigger="manual")


def test_only_the_last_validation_of_a_day_counts(lake: Lake, day_rows: Any) -> None:
    with pytest.raises(ValidationError):
        validate_day(lake, day_rows("2013-01-08"), distance=1)
    validate_day(lake, day_rows("2013-01-08"))
    assert run_guard("d/1", drifted_columns="distance", policy=LOOSE).outcome == "started"


# The budget and the outcome of a run.


def test_a_worst_case_above_the_monthly_budget_is_held_back(
    tmp_path: Path, monkeypatch: Any, fresh_settings: Any
) -> None:
    def set_budget(month_usd: float) -> None:
        section = f"{{region: us-east-1, instance_types: [ml.m5.large], max_run_s: 3600, month_usd: {month_usd}}}"
        (tmp_path / "project" / "params.yaml").write_text(f"budget: {section}\nsnapshot: {{train_days: 3}}\n")

    (tmp_path / "project").mkdir()
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path / "project"))
    fresh_settings()
    set_budget(0.1)
    result = run_guard("d/1")
    assert result.guard == "budget"
    assert "0.1150 USD: more than the 0.1000 USD left" in result.reason
    assert run_guard("d/2", trigger="manual").outcome == "started", (
        "a person may start it; the training checks the budget again"
    )
    record_outcome("d/2")
    set_budget(0.2)
    assert run_guard("d/3", "2013-01-30").outcome == "started"


def test_the_parameters_of_the_model_count(tmp_path: Path, monkeypatch: Any, fresh_settings: Any) -> None:
    """By params.yaml alone, the budget would hold the training back."""
    machine = "region: us-east-1, instance_types: [ml.m5.large], max_run_s: 3600"
    shared = f"budget: {{{machine}, month_usd: 0.1}}\n"
    own = "budget: {month_usd: 0.2}\ngate: {policy: {}}\nsnapshot: {train_days: 3}\n"
    (tmp_path / "params.yaml").write_text(shared)
    typo = "gate: {policy: {bounds: {acu: {at_least: 0.1}}}}\n"
    models = {"m": own, "strict": "gate: {policy: {}}\nsnapshot: {train_days: 3}\n", "typo": typo}
    for name, text in models.items():
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "params.yaml").write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    assert run_guard("d/1").outcome == "started"
    assert run_guard("d/1", model="strict").guard == "budget"
    with pytest.raises(SpecError, match=r"there is no model 'n'.*The models are m, strict, typo"):
        run_guard("d/2", model="n")


def record_verdict(version: str, verdict: str) -> None:
    from pipelines.registry.lifecycle import Event, Kind
    from pipelines.registry.lifecycle import Journal as Registry

    event = Event.create(Kind.JUDGED, "m", version, evidence={"verdict": verdict}, key=verdict)
    Registry.open().append_event("m", lambda _: event)


def test_the_last_decision_about_the_version_gives_the_outcome() -> None:
    from pipelines.registry.lifecycle import Event, Kind
    from pipelines.registry.lifecycle import Journal as Registry

    for number, verdict in (("1", "passed"), ("2", "failed"), ("3", "undecided"), ("4", "undecided")):
        record_verdict(number, verdict)
    Registry.open().append_event("m", lambda _: Event.create(Kind.APPROVED, "m", "4"))
    expected = {"1": "passed", "2": "not_passed", "3": "not_passed", "4": "passed", "5": "failed", "": "failed"}
    for version, outcome in expected.items():
        run_guard(f"d/{version}", trigger="manual")
        result = record_outcome(f"d/{version}", version)
        assert (result.outcome, result.changed) == (outcome, True)
    assert record_outcome("d/unknown").outcome == ""


def test_refuses_a_guard_without_a_run(monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    with pytest.raises(SpecError, match="no run is named"):
        run_guard("")
    monkeypatch.setenv("LEEWAY_RUN", "d/1")
    fresh_settings()
    run_guard("")
    assert Journal.open().read_state("m").events[0].run == "d/1"


def test_a_person_can_start_a_training_with_an_empty_lake(
    tmp_path: Path, monkeypatch: Any, fresh_settings: Any
) -> None:
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "empty"))
    fresh_settings()
    assert run_guard("d/1", trigger="manual").outcome == "started"
    assert run_guard("d/2", drifted_columns="distance").outcome == "held_back"


# The commands.


def test_events_status_and_reset_show_and_close_the_breaker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    (tmp_path / "params.yaml").write_text("guard: {policy: {cooldown_days: 14}}")
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    for n in range(3):
        run_guard(f"d/{n}", f"2013-0{n + 1}-10", reason="auc 0.61")
        record_outcome(f"d/{n}")
    run_guard("d/3", "2013-04-01", reason="auc 0.60")
    lines = run_cli("events", "m").splitlines()
    assert len(lines) == 7
    assert "2013-01-10  started" in lines[0] and "by drift (auc 0.61)  d/0" in lines[0]
    assert "2013-04-01  held_back  breaker" in lines[-1]
    assert "2013-01-10 failed, as of 2013-02-10 failed, as of 2013-03-10 failed" in lines[-1]
    output = run_cli("status", "m", "--dataset", "flights", "--as-of", "2013-04-02")
    assert "breaker       holds back: the last 3 trainings" in output
    assert "the breaker allows the next one as of 2013-04-07" in output and "(until 2013-04-07)" in output
    assert "cooldown      lets through" in output
    assert output.endswith("m as of 2013-04-02: drift would be held back\n")
    assert run_cli("reset", "m", "--why", "the label was late") == "m: the breaker is reset\n"
    assert "start a training" in run_cli("status", "m", "--dataset", "flights", "--as-of", "2013-04-02")
    assert list_kinds()[-2:] == ["held_back", "reset"], "status adds no event"
    assert run_guard("d/4", "2013-04-02").outcome == "started"
    output = run_cli("status", "m", "--dataset", "flights", "--as-of", "2013-04-03")
    assert "(until 2013-04-16)" in output and "in_flight     holds back: d/4" in output
    last = json.loads(run_cli("events", "m", "--json"))[-2]
    assert (last["kind"], last["why"]) == ("reset", "the label was late")


def test_a_run_resets_the_breaker_once(monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    from pipelines.steps import reset_breaker

    run_guard("d/0", "2013-01-10", reason="auc 0.61")
    monkeypatch.setenv("LEEWAY_RUN", "flights_reset_breaker/one")
    monkeypatch.setenv("LEEWAY_ACTOR", "ada")
    fresh_settings()
    spec = reset_breaker.ResetBreakerSpec(model="m", why="the label was late")
    first, repeat = reset_breaker.run(spec), reset_breaker.run(spec)
    assert (first.changed, first.who, repeat.changed, repeat.why) == (True, "ada", False, "the label was late")
    monkeypatch.setenv("LEEWAY_RUN", "flights_reset_breaker/two")
    fresh_settings()
    assert reset_breaker.run(spec).changed, "the control: another run resets it again"
    assert list_kinds()[-2:] == ["reset", "reset"]


def test_refuses_a_model_without_events_and_a_reset_without_a_reason() -> None:
    with pytest.raises(DataError, match="no event of 'nobody'"):
        run_cli("events", "nobody")
    with pytest.raises(DataError, match="no event of 'nobody'"):
        run_cli("reset", "nobody", "--why", "a typo must not look as if the breaker were closed")
    with pytest.raises(SpecError, match="why"):
        run_cli("reset", "m", "--why", " ")
    with pytest.raises(SpecError, match="as-of"):
        run_cli("status", "m", "--dataset", "flights", "--as-of", "March")
    with pytest.raises(SpecError, match="the parameters of m name the dataset flights, but weather is given"):
        run_cli("status", "m", "--dataset", "weather", "--as-of", "2013-04-02")
