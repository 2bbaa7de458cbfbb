"""Test suites that are drafted from real days, and changed suites that are replayed on those days."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.partitions import Hour
from pipelines.steps import validate
from pipelines.validation import suites
from pipelines.validation.suggesting import draft_suite, summarize_table
from pipelines.validation.suite_replay import ReplayedPartition, load_changed_suite, replay, summarize
from tests.tools.saved_homes import SavedHome

KEY = ("date", "carrier", "flight", "origin")
FIRST, LAST = dt.date(2013, 1, 7), dt.date(2013, 1, 13)
Stage = Callable[..., dt.date]


@pytest.fixture
def stage(home: Path, day_rows: Callable[[str], pa.Table]) -> Stage:
    """Return the function that stages a real day, unchanged or changed."""

    def stage_day(day: dt.date, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> dt.date:
        Lake.open().write_partition("flights_raw", day, change(day_rows(str(day))))
        return day

    return stage_day


WEEK = [FIRST + dt.timedelta(number) for number in range(7)]


@pytest.fixture(scope="module")
def saved_week(save_home: Callable[..., SavedHome], day_rows: Callable[[str], pa.Table]) -> SavedHome:
    """Make a lake with a week of real days that are staged."""

    def stage_week() -> None:
        for day in WEEK:
            Lake.open().write_partition("flights_raw", day, day_rows(str(day)))

    return save_home(stage_week)


@pytest.fixture
def home(home: Path, request: pytest.FixtureRequest, restore_home: Callable[[SavedHome], Path]) -> Path:
    """Set LEEWAY_HOME to an empty folder or, in a test that needs the week, to the lake of the week, as it was made."""
    is_of_week = {"week", "validated_days"} & set(request.fixturenames)
    return restore_home(request.getfixturevalue("saved_week")) if is_of_week else home


@pytest.fixture
def week(home: Path) -> list[dt.date]:
    """Return the days of a week of real days, which are staged."""
    return WEEK


def draft_flights_suite(first: dt.date = FIRST, last: dt.date = LAST, *, is_of_a_year: bool = True) -> suites.Suite:
    """Draft a suite from staged days of flights, as from days of a whole year if `is_of_a_year` is set."""
    summary = summarize_table("flights_raw", first, last, KEY)
    if is_of_a_year:
        rows = summary.rows_by_partition[first]
        summary = replace(summary, rows_by_partition={first - dt.timedelta(365): rows, **summary.rows_by_partition})
    return suites.parse_suite("draft", draft_suite(summary, "draft"), "draft")


def replay_suite(suite: suites.Suite, *days: dt.date, max_quarantined_fraction: float = 0.1) -> list[ReplayedPartition]:
    return list(replay(suite, "flights_raw", "flights", days, max_quarantined_fraction))


def set_values(column: str, value: Any, number: int = 3) -> Callable[[pa.Table], pa.Table]:
    """Return the function that sets a column of the first `number` rows to a value."""

    def change(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index(column)
        values = [value] * number + rows[column].to_pylist()[number:]
        return rows.set_column(
            position, rows.schema.field(position), pa.array(values, rows.schema.field(position).type)
        )

    return change


def test_a_draft_passes_on_the_window_that_it_was_drafted_from_and_gives_reasons(week: list[dt.date]) -> None:
    """Each expectation gives its reason with numbers."""
    suite = draft_flights_suite()
    assert len(suite.expectations) > 40
    for day_result in replay_suite(suite, *week):
        assert (day_result.verdict, list(day_result.failures)) == ("passed", [])
    for expectation in suite.expectations:
        reason = (expectation.meta or {})["why"]
        assert any(character.isdigit() for character in reason), (expectation.type, reason)


CRITICAL_FAULTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a duplicate key": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "a null carrier": set_values("carrier", None, 1),
    "an incomplete file": lambda rows: rows.slice(0, 200),
    "each row three times": lambda rows: pa.concat_tables([rows, rows, rows]),
    "a null distance": set_values("distance", None, 1),
}
BAD_VALUES = {
    "an unknown origin": set_values("origin", "ZZZ"),
    "an impossible distance": set_values("distance", 99_999),
    "a destination without a code": set_values("dest", "Boston"),
    "an impossible delay": set_values("arr_delay", 9_999.0),
}


def test_a_draft_blocks_critical_faults_and_quarantines_bad_values(week: list[dt.date], stage: Stage) -> None:
    """A fault is staged for the last day after the suite is drafted; the next fault replaces it."""
    suite = draft_flights_suite()
    for case, change in CRITICAL_FAULTS.items():
        stage(LAST, change)
        assert replay_suite(suite, LAST)[0].verdict == "blocked", case
    for case, change in BAD_VALUES.items():
        stage(LAST, change)
        day_result = replay_suite(suite, LAST)[0]
        assert (day_result.verdict, day_result.quarantined) == ("quarantined", 3), case
        assert replay_suite(suite, LAST, max_quarantined_fraction=0.001)[0].verdict == "blocked", case


SEASONS = [dt.date(2013, month, 1 + 3 * month // 2) for month in range(1, 13)]


@pytest.mark.soak
def test_a_draft_of_three_months_blocks_no_other_season_and_says_so(home: Path, stage: Stage) -> None:
    """The negative control, the same draft as if it were of a year, blocks days of other seasons."""
    winter = [stage(dt.date(2013, 1, 1) + dt.timedelta(number)) for number in range(0, 90, 6)]
    for day in SEASONS:
        stage(day)
    draft = draft_suite(summarize_table("flights_raw", winter[0], winter[-1], KEY), "draft")
    assert "85 days, less than a year" in draft["meta"]["about"]
    suite = draft_flights_suite(winter[0], winter[-1], is_of_a_year=False)
    assert {day_result.verdict for day_result in replay_suite(suite, *SEASONS)} <= {"passed", "warned"}
    strict_suite = draft_flights_suite(winter[0], winter[-1])
    assert "blocked" in {day_result.verdict for day_result in replay_suite(strict_suite, *SEASONS)}


def test_a_draft_of_a_week_blocks_structural_faults(week: list[dt.date], stage: Stage) -> None:
    suite = draft_flights_suite(is_of_a_year=False)
    for case in ("a duplicate key", "a null carrier"):
        stage(LAST, CRITICAL_FAULTS[case])
        assert replay_suite(suite, LAST)[0].verdict == "blocked", case


@pytest.mark.parametrize("is_of_a_year", [True, False])
def test_a_repeated_key_is_reported_in_the_draft(week: list[dt.date], stage: Stage, is_of_a_year: bool) -> None:
    stage(LAST, CRITICAL_FAULTS["a duplicate key"])
    expectation = next(
        expectation
        for expectation in draft_flights_suite(is_of_a_year=is_of_a_year).expectations
        if expectation.type == "expect_compound_columns_to_be_unique"
    )
    assert expectation.severity == "info"
    assert "2 rows have the key of another row" in (expectation.meta or {})["why"]


def test_a_key_is_repeated_only_within_a_partition(home: Path) -> None:
    for hour, trips in ((0, [1, 2]), (1, [1, 3, 3])):
        dates, hours = pa.array([FIRST] * len(trips), pa.date32()), pa.array([hour] * len(trips), pa.int32())
        rows = pa.table({"date": dates, "hour": hours, "trip": trips})
        Lake.open().write_partition("trips_raw", Hour(FIRST, hour), rows)
    assert summarize_table("trips_raw", FIRST, FIRST, ("date", "trip"), "hour").repeated_key_rows == 2


def create_odd_rows(day: dt.date) -> pa.Table:
    """Return rows of a day whose columns have unusual names, types and values."""
    number = 200
    return pa.table(
        {
            "date": pa.array([day] * number, pa.date32()),
            "empty": pa.array([None] * number, pa.string()),
            "nan": pa.array([float("nan")] * number, pa.float64()),
            "infinite": pa.array([float("inf"), *[1.0] * (number - 1)], pa.float64()),
            "one": pa.array([7] * number, pa.int64()),
            'it\'s "quoted"': pa.array(["a'b"] * number, pa.string()),
            "prose": pa.array(["word " * 40] * (number - 1) + ["x"], pa.string()),
            "flag": pa.array([True, None] * (number // 2), pa.bool_()),
            "huge": pa.array([2**62] * number, pa.int64()),
            "tiny": pa.array([1e-12 * n for n in range(number)], pa.float64()),
            "fresh": pa.array([n % 7 if day > FIRST else 0 for n in range(number)], pa.int64()).cast(pa.string()),
        }
    )


def test_a_draft_for_odd_columns_passes(home: Path) -> None:
    lake = Lake.open()
    days = [FIRST, FIRST + dt.timedelta(1), FIRST + dt.timedelta(2)]
    for day in days:
        lake.write_partition("odd_raw", day, create_odd_rows(day))
    draft = draft_suite(summarize_table("odd_raw", FIRST, LAST), "odd")
    text = json.dumps(draft, allow_nan=False)
    assert "Infinity" not in text
    for day_result in replay(suites.parse_suite("odd", json.loads(text), "odd"), "odd_raw", "odd", days, 0.1):
        assert (day_result.verdict, list(day_result.failures)) == ("passed", [])


def test_a_column_whose_last_day_has_a_new_value_gets_no_value_set(home: Path) -> None:
    lake = Lake.open()
    for number in range(4):
        day = FIRST + dt.timedelta(number)
        values = ["a"] * 100 if number < 3 else ["a"] * 99 + ["b"]
        lake.write_partition("odd_raw", day, pa.table({"date": [day] * 100, "open": values, "closed": ["a"] * 100}))
    types = {
        expectation.column: expectation.type for expectation in draft_odd_suite().expectations if expectation.column
    }
    assert (types["open"], types["closed"]) == (
        "expect_column_values_to_match_regex",
        "expect_column_values_to_be_in_set",
    )


def draft_odd_suite() -> suites.Suite:
    return suites.parse_suite("odd", draft_suite(summarize_table("odd_raw", FIRST, LAST), "odd"), "odd")


@pytest.mark.soak
def test_several_weeks_give_an_expectation_of_the_volume(home: Path) -> None:
    lake = Lake.open()
    days = [FIRST + dt.timedelta(number) for number in range(28)]  # the last week has three before it
    for day in days:
        rows = 50 if day.weekday() >= 5 else 400
        lake.write_partition("odd_raw", day, pa.table({"date": [day] * rows, "n": list(range(rows))}))
        lake.write_partition("odd", day, pa.table({"date": [day] * rows, "n": list(range(rows))}))
    suite = suites.parse_suite("odd", draft_suite(summarize_table("odd_raw", days[0], days[-1]), "odd"), "odd")
    volume = next(rule for rule in suite.expectations if rule.type == "expect_partition_volume_to_be_in_line")
    assert (volume.kwargs["min_ratio"], volume.kwargs["max_ratio"]) == (0.5, 2.0)
    assert {day_result.verdict for day_result in replay(suite, "odd_raw", "odd", days, 0.1)} == {"passed"}
    sunday = days[-1]
    lake.write_partition("odd_raw", sunday, pa.table({"date": [sunday] * 400, "n": list(range(400))}))
    sunday_result = next(replay(suite, "odd_raw", "odd", [sunday], 0.1))
    assert "expect_partition_volume_to_be_in_line" in [failure["expectation"] for failure in sunday_result.failures]


def test_a_missing_table_day_column_or_suite_is_named(week: list[dt.date]) -> None:
    with pytest.raises(DataError, match="no table trains"):
        summarize_table("trains", FIRST, LAST)
    with pytest.raises(DataError, match="no rows from 2014"):
        summarize_table("flights_raw", dt.date(2014, 1, 1), dt.date(2014, 1, 2))
    with pytest.raises(DataError, match="lacks the column"):
        summarize_table("flights_raw", FIRST, LAST, ("date", "wings"))
    with pytest.raises(DataError, match="nosuch"):
        load_changed_suite("nosuch")


@pytest.fixture
def validated_days(week: list[dt.date]) -> list[dt.date]:
    """Validate three days of the week by the suite in use; return the days."""
    for day in week[:3]:
        validate.run(validate.ValidateSpec(dataset="flights", partition=day))
    return week[:3]


def test_replay_reports_the_effect_of_a_changed_suite_and_writes_nothing(
    validated_days: list[dt.date], home: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
    unchanged_days = list(replay(load_changed_suite("flights"), "flights_raw", "flights", validated_days, 0.1))
    assert [day_result.is_different for day_result in unchanged_days] == [False] * 3
    suite = json.loads((Path(__file__).parents[4] / "expectations/flights.json").read_text())
    row_counts = Lake.open().count_rows_by_day("flights_raw")
    for expectation in suite["expectations"]:
        if expectation["type"] == "expect_table_row_count_to_be_between":
            expectation["kwargs"]["min_value"] = max(row_counts[day] for day in validated_days)
    replayed_days = list(
        replay(suites.parse_suite("flights", suite, "flights"), "flights_raw", "flights", validated_days, 0.1)
    )
    assert sorted(day_result.verdict == "blocked" for day_result in replayed_days) == [False, True, True]
    assert summarize(replayed_days)["differ"] == summarize(replayed_days)["now"]["blocked"] == 2
    assert summarize(replayed_days)["before"]["blocked"] == 0
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()} == before


def test_replay_reports_days_that_were_never_validated(week: list[dt.date]) -> None:
    day_result = replay_suite(load_changed_suite("flights"), week[0])[0]
    assert day_result.last_run is None and day_result.is_different
    assert summarize([day_result])["never_validated"] == 1


def test_suggest_and_replay_work_as_commands(validated_days: list[dt.date], commands: Any, tmp_path: Path) -> None:
    window = ("--from", str(FIRST), "--to", str(LAST))
    suggest = ("expectations", "suggest", "--table", "flights_raw", *window)
    draft = commands.run_step(*suggest, "--out", "mine.json")
    assert (draft.code, draft.out) == (0, ""), draft.err
    first = (tmp_path / "mine.json").read_bytes()
    repeat = commands.run_step(*suggest, "--out", "mine.json")
    assert repeat.code == 2 and "--force" in repeat.err
    assert (tmp_path / "mine.json").read_bytes() == first
    assert commands.run_step(*suggest, "--out", "mine.json", "--force").code == 0
    assert commands.run_step(*suggest).out.encode() != b""
    report = commands.run_step("expectations", "replay", "--suite", "mine.json", "--table", "flights_raw", *window)
    assert report.code == 0, report.err
    assert "7 partitions: 7 passed" in report.out
    json_report = commands.run_step(
        "expectations", "replay", "--suite", "mine.json", "--table", "flights_raw", *window, "--json"
    )
    assert json.loads(json_report.out)["totals"]["never_validated"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("suggest", "--table", "flights_raw", "--from", "x", "--to", "2013-01-02"), "is not a day"),
        (("suggest", "--table", "flights_raw", "--from", "2013-01-02", "--to", "2013-01-01"), "is after"),
        (("suggest", "--table", "flights_raw", "--from", "2013-01-01", "--to", "2013-01-01"), "no table flights_raw"),
        (
            ("replay", "--suite", "flights", "--table", "f", "--from", "2013-01-01", "--to", "2013-01-01"),
            "no partition",
        ),
        (
            ("replay", "--suite", "no.json", "--table", "f", "--from", "2013-01-01", "--to", "2013-01-01"),
            "does not exist",
        ),
    ],
)
def test_an_invalid_command_line_gives_its_reason(arguments: tuple[str, ...], message: str, commands: Any) -> None:
    result = commands.run_step("expectations", *arguments, env={"LEEWAY_PROJECT": str(Path(__file__).parents[4])})
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
