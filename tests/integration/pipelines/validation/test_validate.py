"""Write, audit, publish: on real days, and on days that must be refused."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError, ValidationError
from pipelines.lake import Lake
from pipelines.steps import backfill, validate

ROOT = Path(__file__).parents[4]
# The first and the last day (no weather), the blizzard and the day after it (mostly cancelled), both changes of the
# clock, the least and the most flights, and some plain ones. All 365 pass; it takes 70 s.
DAYS = (
    "2013-01-01", "2013-02-08", "2013-02-09", "2013-03-10", "2013-04-15", "2013-07-04", "2013-09-01", "2013-11-03",
    "2013-11-27", "2013-11-28", "2013-12-30", "2013-12-31",
)  # fmt: skip

Stage = Callable[..., dt.date]


@pytest.fixture
def stage(home: Path, day_rows: Callable[[str], pa.Table]) -> Stage:
    """Stages a real day, changed or not."""

    def staged(day: str, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> dt.date:
        Lake.open().write_partition("flights_raw", dt.date.fromisoformat(day), change(day_rows(day)))
        return dt.date.fromisoformat(day)

    return staged


def run(day: dt.date, suite: str = "", *, withdraw: bool = False) -> validate.ValidateResult:
    return validate.run(validate.ValidateSpec(partition=day, suite=suite, withdraw=withdraw))


def with_values(column: str, value: Any, number: int = 3) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(column)
        values = [value] * number + rows[column].to_pylist()[number:]
        return rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))

    return change


@pytest.mark.parametrize("day", DAYS)
def test_the_real_year_passes(day: str, stage: Stage, day_rows: Callable[[str], pa.Table]) -> None:
    date = stage(day)
    told = run(date)
    assert told.rows == day_rows(day).num_rows
    assert Lake.open().read_partition("flights", date).equals(Lake.open().read_partition("flights_raw", date))
    evidence = json.loads(told.evidence.read_text())
    assert len(evidence["results"]) == told.evaluated > 20
    if day in ("2013-12-31", "2013-02-09"):
        assert told.warnings, "no weather on the one, mostly cancelled on the other: published, and said"
    if day == "2013-04-15":
        assert [one["error"] for one in told.warnings] == ["the lake has no table weather."]


CRITICAL: dict[str, Callable[[pa.Table], pa.Table]] = {
    "an origin that is none": with_values("origin", "ZZZ", 1),
    "no carrier": with_values("carrier", None, 1),
    "no scheduled moment": with_values("scheduled_at", None, 1),
    "a distance that is none": with_values("distance", -1, 1),
    "an hour that is none": with_values("sched_dep_time", 2500, 1),
    "a key twice": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "a file cut short": lambda rows: rows.slice(0, 200),
    "no labels": with_values("late", None, 842),
}


@pytest.mark.parametrize("case", CRITICAL)
def test_a_critical_failure_is_not_published(case: str, stage: Stage, home: Path) -> None:
    day = stage("2013-01-01", CRITICAL[case])
    with pytest.raises(ValidationError, match="was not published") as caught:
        run(day)
    assert caught.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}
    evidence = home / "validation/flights/2013-01-01.json"
    page = home / "docs/flights/2013-01-01.html"
    assert page.as_uri() in caught.value.hint
    assert "blocked" in page.read_text()
    failed = [one for one in json.loads(evidence.read_text())["results"] if not one["success"]]
    assert "critical" in [one["expectation_config"]["severity"] for one in failed]
    assert Lake.open().read_partition("flights_raw", day).num_rows, "the refused rows stay readable"


def test_what_was_published_before_stays(stage: Stage) -> None:
    day = stage("2013-01-01")
    first = run(day)
    stage("2013-01-01", CRITICAL["an origin that is none"])
    with pytest.raises(ValidationError):
        run(day)
    lake = Lake.open()
    assert lake.pin_window("flights", day, day) == first.snapshot_id
    assert "ZZZ" not in lake.read_partition("flights", day)["origin"].to_pylist()
    stage("2013-01-01")
    again = run(day)
    assert (again.changed, again.snapshot_id) == (False, first.snapshot_id)


def test_a_refused_day_is_withdrawn_where_that_is_asked_and_its_past_stays_readable(stage: Stage) -> None:
    day, other = stage("2013-01-01"), stage("2013-02-08")
    first, lake = run(day, withdraw=True), Lake.open()
    run(other)
    assert first.rows == 842, "a day that passes is published, whatever is asked"
    stage("2013-01-01", CRITICAL["an origin that is none"])
    with pytest.raises(
        ValidationError, match=r"was not published: .* 842 rows published before were withdrawn"
    ) as caught:
        run(day, withdraw=True)
    assert caught.value.exit_code == 2
    assert list(lake.count_rows_by_day("flights")) == [other]
    assert lake.read_window("flights", day, day, first.snapshot_id).num_rows == 842, (
        "who was trained on it stays reproducible"
    )
    with pytest.raises(ValidationError) as again:
        run(day, withdraw=True)
    assert "withdrawn" not in str(again.value), "there is nothing left to withdraw"
    stage("2013-01-01")
    assert run(day).changed and lake.count_rows_by_day("flights")[day] == 842


@pytest.mark.parametrize("killed", [False, True])
def test_labels_that_are_withdrawn_take_their_outcomes_along(stage: Stage, killed: bool) -> None:
    day, other, lake = stage("2013-01-01"), stage("2013-02-08"), Lake.open()
    for one in (day, other):
        run(one)
        told = pa.table({"date": [one], "label": [True], "model_name": ["m"]})
        lake.write_partition("flights_outcomes", one, told, ("date",), part={"model_name": "m"})
    stage("2013-01-01", CRITICAL["an origin that is none"])
    with pytest.raises(ValidationError):
        run(day)
    assert sorted(lake.count_rows_by_day("flights_outcomes")) == [day, other]
    if killed:
        lake.clear_partition("flights", day)
    with pytest.raises(ValidationError):
        run(day, withdraw=True)
    assert list(lake.count_rows_by_day("flights_outcomes")) == [other]


def test_a_warning_is_published_and_listed(stage: Stage) -> None:
    day = stage("2013-01-01", with_values("weather_temp", 500.0, 9))
    told = run(day)
    assert told.changed
    hot = next(one for one in told.warnings if one["column"] == "weather_temp")
    assert (hot["severity"], hot["examples"]) == ("warning", ["500.0"] * 3)
    assert Lake.open().read_partition("flights", day).num_rows == told.rows == 842 - 9


def test_examples_are_bounded_whatever_the_data_holds(stage: Stage) -> None:
    day = stage("2013-01-01", with_values("dest", "X" * 50_000, 800))
    with pytest.raises(ValidationError) as caught:
        run(day)
    assert len(str(caught.value)) <= 1_500


def test_a_partition_that_was_not_ingested(home: Path, stage: Stage) -> None:
    with pytest.raises(DataError):
        run(dt.date(2013, 1, 1))
    stage("2013-01-01")
    with pytest.raises(DataError, match="no partition 2013-01-02"):
        run(dt.date(2013, 1, 2))


SUITES = {
    "broken JSON": '{"expectations": [',
    "a list": "[]",
    "no expectations": '{"name": "x"}',
    "an empty list of them": '{"expectations": []}',
    "an expectation that is none": '{"expectations": [{"type": "expect_luck", "kwargs": {}}]}',
    "a wrong argument": '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"kol": "x"}}]}',
    "a severity that is none": '{"expectations": [{"type": "expect_column_values_to_not_be_null", '
    '"kwargs": {"column": "date"}, "severity": "dire"}]}',
}


@pytest.mark.parametrize("case", [*SUITES, "not there"])
def test_a_suite_that_is_none_publishes_nothing(
    case: str, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    (tmp_path / "expectations").mkdir()
    if case in SUITES:
        (tmp_path / "expectations/mine.json").write_text(SUITES[case])
    day = stage("2013-01-01")
    with pytest.raises(DataError, match=r"mine\.json") as caught:
        run(day, "mine")
    assert caught.value.exit_code == 2
    assert Lake.open().count_rows_by_day("flights") == {}


def test_an_expectation_of_a_column_that_is_missing_is_critical_by_default(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    shutil.copytree(ROOT / "expectations", tmp_path / "expectations")
    (tmp_path / "expectations/mine.json").write_text(
        '{"expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "nowhere"}}]}'
    )
    with pytest.raises(ValidationError, match="nowhere"):
        run(stage("2013-01-01"), "mine")


def test_backfill_goes_on_past_a_refused_day_and_names_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    from pipelines.datasets.flights import source as module

    class Hurt:
        partitions = source.partitions

        def read(self, day: dt.date) -> pa.RecordBatchReader:
            rows = source.read(day).read_all()
            return (CRITICAL["an origin that is none"](rows) if day.day == 2 else rows).to_reader()

    monkeypatch.setattr(module, "open_source", lambda folder=None: Hurt())
    spec = backfill.BackfillSpec(first="2013-01-01", last="2013-01-03")
    with pytest.raises(DataError, match="1 of 3 partitions were not published: 2013-01-02"):
        backfill.run(spec)
    assert sorted(day.day for day in Lake.open().count_rows_by_day("flights")) == [1, 3]
    monkeypatch.setattr(module, "open_source", lambda folder=None: source)
    done = backfill.run(spec)
    assert (done.published, done.skipped) == (1, 2)
    assert backfill.run(spec).published == 0
