"""Test the step validate: it publishes real days and refuses bad ones; and the step backfill, which calls it."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import DataError, SpecError, ValidationError
from pipelines.lake import Lake
from pipelines.monitoring.day_status import list_refused_days
from pipelines.settings import settings
from pipelines.steps import backfill, validate, withdraw
from pipelines.validation.results_table import ResultsTable
from pipelines.window import Days
from tests.conftest import Commands
from tests.tools.kill_points import draw_moments, is_killed, run_until

ROOT = Path(__file__).parents[4]
# The first and the last day (no weather), the blizzard and the day after it (mostly cancelled), both clock changes, the
# days with the fewest and the most flights, and some usual days. All 365 days pass, which takes 70 s.
DAYS = ("2013-02-09", "2013-03-10", "2013-04-15", "2013-12-31")
MORE_DAYS = (
    "2013-01-01", "2013-02-08", "2013-07-04", "2013-09-01", "2013-11-03", "2013-11-27", "2013-11-28", "2013-12-30",
)  # fmt: skip

Stage = Callable[..., dt.date]


@pytest.fixture
def stage(home: Path, day_rows: Callable[[str], pa.Table]) -> Stage:
    """Return the function that stages a real day, unchanged or changed."""

    def stage_day(day: str, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> dt.date:
        Lake.open().write_partition("flights_raw", dt.date.fromisoformat(day), change(day_rows(day)))
        return dt.date.fromisoformat(day)

    return stage_day


def run_validate(day: dt.date, suite: str = "", *, withdraw: bool = False) -> validate.ValidateResult:
    return validate.run(validate.ValidateSpec(dataset="flights", partition=day, suite=suite, withdraw=withdraw))


def set_values(column: str, value: Any, number: int = 3) -> Callable[[pa.Table], pa.Table]:
    """Return the function that sets a column of the first `number` rows to a value."""

    def change(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index(column)
        values = [value] * number + rows[column].to_pylist()[number:]
        return rows.set_column(
            position, rows.schema.field(position), pa.array(values, rows.schema.field(position).type)
        )

    return change


@pytest.mark.parametrize("day", [*DAYS, *(pytest.param(day, marks=pytest.mark.soak) for day in MORE_DAYS)])
def test_a_real_day_passes(day: str, stage: Stage, day_rows: Callable[[str], pa.Table]) -> None:
    date = stage(day)
    result = run_validate(date)
    assert result.rows == day_rows(day).num_rows
    assert Lake.open().read_partition("flights", date).equals(Lake.open().read_partition("flights_raw", date))
    evidence = json.loads(result.evidence.read_text())
    assert len(evidence["results"]) == result.evaluated > 20
    if day in ("2013-12-31", "2013-02-09"):
        assert result.warnings, "the first day has no weather, and the other has mostly cancelled flights"
    if day == "2013-04-15":
        assert [warning["error"] for warning in result.warnings] == ["the lake has no table weather."]


CRITICAL_FAULTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "an unknown origin": set_values("origin", "ZZZ", 1),
    "a null carrier": set_values("carrier", None, 1),
    "a null scheduled_at": set_values("scheduled_at", None, 1),
    "a negative distance": set_values("distance", -1, 1),
    "an impossible departure time": set_values("sched_dep_time", 2500, 1),
    "a duplicate key": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "an incomplete file": lambda rows: rows.slice(0, 200),
    "null labels": set_values("late", None, 842),
}


@pytest.mark.parametrize("case", CRITICAL_FAULTS)
def test_a_critical_failure_is_not_published(case: str, stage: Stage, home: Path) -> None:
    day = stage("2013-01-01", CRITICAL_FAULTS[case])
    with pytest.raises(ValidationError, match="was not published") as error:
        run_validate(day)
    assert error.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}
    evidence = home / "validation/flights/2013-01-01.json"
    page = home / "docs/flights/2013-01-01.html"
    assert page.as_uri() in error.value.hint
    assert "blocked" in page.read_text()
    failures = [result for result in json.loads(evidence.read_text())["results"] if not result["success"]]
    assert "critical" in [failure["expectation_config"]["severity"] for failure in failures]
    assert Lake.open().read_partition("flights_raw", day).num_rows, "the refused rows stay readable"


def test_a_refused_day_keeps_the_rows_that_were_published_before(stage: Stage) -> None:
    day = stage("2013-01-01")
    first = run_validate(day)
    stage("2013-01-01", CRITICAL_FAULTS["an unknown origin"])
    with pytest.raises(ValidationError):
        run_validate(day)
    lake = Lake.open()
    assert lake.pin_window("flights", day, day) == first.snapshot_id
    assert "ZZZ" not in lake.read_partition("flights", day)["origin"].to_pylist()
    stage("2013-01-01")
    repeat = run_validate(day)
    assert (repeat.changed, repeat.snapshot_id) == (False, first.snapshot_id)


def test_a_refused_day_is_withdrawn_on_request_and_older_snapshots_stay_readable(stage: Stage) -> None:
    day, other_day = stage("2013-01-01"), stage("2013-02-08")
    first, lake = run_validate(day, withdraw=True), Lake.open()
    run_validate(other_day)
    assert first.rows == 842, "a day that passes is published with `withdraw`, too"
    stage("2013-01-01", CRITICAL_FAULTS["an unknown origin"])
    with pytest.raises(
        ValidationError, match=r"was not published: .* 842 rows that were published before were withdrawn"
    ) as error:
        run_validate(day, withdraw=True)
    assert error.value.exit_code == 2
    assert list(lake.count_rows_by_day("flights")) == [other_day]
    assert lake.read_window("flights", day, day, first.snapshot_id).num_rows == 842, (
        "a model that was trained on the day stays reproducible"
    )
    with pytest.raises(ValidationError) as second_error:
        run_validate(day, withdraw=True)
    assert "withdrawn" not in str(second_error.value), "no rows are left to withdraw"
    stage("2013-01-01")
    assert run_validate(day).changed and lake.count_rows_by_day("flights")[day] == 842


@pytest.mark.parametrize("is_cleared", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_withdrawn_day_loses_its_outcomes(stage: Stage, is_cleared: bool) -> None:
    """The outcomes are removed, too, if a killed validation has cleared the published day already."""
    day, other_day, lake = stage("2013-01-01"), stage("2013-02-08"), Lake.open()
    for date in (day, other_day):
        run_validate(date)
        outcomes = pa.table({"date": [date], "label": [True], "model_name": ["m"]})
        lake.write_partition("flights_outcomes", date, outcomes, ("date",), part_values={"model_name": "m"})
    stage("2013-01-01", CRITICAL_FAULTS["an unknown origin"])
    with pytest.raises(ValidationError):
        run_validate(day)
    assert sorted(lake.count_rows_by_day("flights_outcomes")) == [day, other_day]
    if is_cleared:
        lake.clear_partition("flights", day)
    with pytest.raises(ValidationError):
        run_validate(day, withdraw=True)
    assert list(lake.count_rows_by_day("flights_outcomes")) == [other_day]


def test_a_person_withdraws_a_day_that_validation_had_passed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    day, other_day, lake = stage("2013-01-01"), stage("2013-02-08"), Lake.open()
    first = run_validate(day)
    run_validate(other_day)
    outcomes = pa.table({"date": [day], "label": [True], "model_name": ["m"]})
    lake.write_partition("flights_outcomes", day, outcomes, ("date",), part_values={"model_name": "m"})
    monkeypatch.setenv("LEEWAY_ACTOR", "ada")
    fresh_settings()
    spec = withdraw.WithdrawSpec(dataset="flights", partition=day, why="two airports <b>are</b> swapped")
    result = withdraw.run(spec)
    assert (result.rows, result.who, result.changed) == (842, "ada", True)
    assert list(lake.count_rows_by_day("flights")) == [other_day]
    assert lake.count_rows_by_day("flights_outcomes") == {}
    assert lake.read_window("flights", day, day, first.snapshot_id).num_rows == 842, "a model stays reproducible"
    (failure,) = [row for row in ResultsTable(lake).read_newest("flights", day, day) if not row["success"]]
    assert failure["severity"] == "critical"
    assert failure["observed"] == "withdrawn by ada: two airports <b>are</b> swapped"
    page = (settings().home / f"docs/flights/{day}.html").read_text()
    assert "No person has withdrawn the partition" in page and "<b>are</b>" not in page
    for name in ("flights", "flight_delay"):  # flight_delay reads the rows of flights
        assert list_refused_days(lake, load_dataset(name), Days(day, other_day)) == {day}, "drift does not wait for it"
    repeat = withdraw.run(spec)
    assert (repeat.rows, repeat.changed) == (0, False)
    assert run_validate(day).rows == 842, "a later validation publishes it again"


def test_a_withdrawal_of_nothing_is_refused(stage: Stage) -> None:
    day = stage("2013-01-01")
    spec = withdraw.WithdrawSpec(dataset="flights", partition=day, why="a typo in the day")
    with pytest.raises(DataError, match="flights has no published rows of 2013-01-01: there is nothing to withdraw"):
        withdraw.run(spec)
    with pytest.raises(SpecError, match="why"):
        withdraw.WithdrawSpec.parse({"dataset": "flights", "partition": str(day), "why": " "}, "test")
    assert ResultsTable(Lake.open()).read_newest("flights", day, day) == []


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_a_killed_withdrawal_leaves_all_rows_or_none_and_the_next_completes_it(
    stage: Stage, commands: Commands, kills: int
) -> None:
    day, lake = stage("2013-01-01"), Lake.open()
    options = ("--dataset", "flights", "--partition", str(day), "--why", "swapped")
    run_validate(day)
    whole_run = run_until(commands, 0, "withdraw", *options)
    assert whole_run.code == 0 and lake.count_rows_by_day("flights") == {}
    for moment in draw_moments(whole_run, kills, seed=5):
        run_validate(day)
        assert is_killed(run_until(commands, moment, "withdraw", *options))
        assert lake.count_rows_by_day("flights") in ({}, {day: 842})
        withdraw.run(withdraw.WithdrawSpec(dataset="flights", partition=day, why="swapped"))
        assert lake.count_rows_by_day("flights") == {}
        assert list_refused_days(lake, load_dataset("flights"), Days(day, day)) == {day}


def test_a_day_with_warnings_is_published_and_the_warnings_are_listed(stage: Stage) -> None:
    day = stage("2013-01-01", set_values("weather_temp", 500.0, 9))
    result = run_validate(day)
    assert result.changed
    weather_warning = next(warning for warning in result.warnings if warning["column"] == "weather_temp")
    assert (weather_warning["severity"], weather_warning["examples"]) == ("warning", ["500.0"] * 3)
    assert Lake.open().read_partition("flights", day).num_rows == result.rows == 842 - 9


def test_the_length_of_a_message_is_bounded(stage: Stage) -> None:
    day = stage("2013-01-01", set_values("dest", "X" * 50_000, 800))
    with pytest.raises(ValidationError) as error:
        run_validate(day)
    assert len(str(error.value)) <= 1_500


def test_a_partition_that_was_not_ingested_is_named(home: Path, stage: Stage) -> None:
    with pytest.raises(DataError):
        run_validate(dt.date(2013, 1, 1))
    stage("2013-01-01")
    with pytest.raises(DataError, match="no partition 2013-01-02"):
        run_validate(dt.date(2013, 1, 2))


INVALID_SUITES = {
    "broken JSON": '{"expectations": [',
    "a list": "[]",
    "no expectations": '{"name": "x"}',
    "an empty list of expectations": '{"expectations": []}',
    "an unknown expectation": '{"expectations": [{"type": "expect_luck", "kwargs": {}}]}',
    "a wrong argument": '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"kol": "x"}}]}',
    "an unknown severity": '{"expectations": [{"type": "expect_column_values_to_not_be_null", '
    '"kwargs": {"column": "date"}, "severity": "dire"}]}',
}


@pytest.mark.parametrize("case", [*INVALID_SUITES, "a missing file"])
def test_an_invalid_suite_publishes_nothing(
    case: str, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    (tmp_path / "expectations").mkdir()
    if case in INVALID_SUITES:
        (tmp_path / "expectations/mine.json").write_text(INVALID_SUITES[case])
    day = stage("2013-01-01")
    with pytest.raises(DataError, match=r"mine\.json") as error:
        run_validate(day, "mine")
    assert error.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}


def test_an_expectation_about_a_missing_column_is_critical_by_default(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    shutil.copytree(ROOT / "expectations", tmp_path / "expectations")
    (tmp_path / "expectations/mine.json").write_text(
        '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "nowhere"}}]}'
    )
    with pytest.raises(ValidationError, match="nowhere"):
        run_validate(stage("2013-01-01"), "mine")


def test_backfill_continues_after_a_refused_day_and_names_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    from pipelines.datasets.flights import source as module

    class SourceWithBadDay:
        list_partitions = source.list_partitions

        def read(self, day: dt.date) -> pa.RecordBatchReader:
            rows = source.read(day).read_all()
            return (CRITICAL_FAULTS["an unknown origin"](rows) if day.day == 2 else rows).to_reader()

    monkeypatch.setattr(module, "open_source", lambda folder=None: SourceWithBadDay())
    spec = backfill.BackfillSpec(dataset="flights", first="2013-01-01", last="2013-01-03")
    with pytest.raises(DataError, match="1 of 3 partitions were not published: 2013-01-02"):
        backfill.run(spec)
    assert sorted(day.day for day in Lake.open().count_rows_by_day("flights")) == [1, 3]
    monkeypatch.setattr(module, "open_source", lambda folder=None: source)
    result = backfill.run(spec)
    assert (result.published, result.skipped) == (1, 2)
    assert backfill.run(spec).published == 0
