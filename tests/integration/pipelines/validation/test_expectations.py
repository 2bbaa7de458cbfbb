"""Suites drafted from real days, and changed suites replayed on them."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.steps import validate
from pipelines.validation import suites
from pipelines.validation.suggesting import draft_suite, profile_table
from pipelines.validation.suite_replay import Replayed, load_changed_suite, replay, sum_up

KEY = ("date", "carrier", "flight", "origin")
FIRST, LAST = dt.date(2013, 1, 7), dt.date(2013, 1, 13)
Stage = Callable[..., dt.date]


@pytest.fixture
def stage(home: Path, day_rows: Callable[[str], pa.Table]) -> Stage:
    """Stages a real day, changed or not."""

    def staged(day: dt.date, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> dt.date:
        Lake.open().write_partition("flights_raw", day, change(day_rows(str(day))))
        return day

    return staged


@pytest.fixture
def week(stage: Stage) -> list[dt.date]:
    """A staged week of real days."""
    return [stage(FIRST + dt.timedelta(number)) for number in range(7)]


def suite_of(first: dt.date = FIRST, last: dt.date = LAST) -> suites.Suite:
    return suites.parse_suite("draft", draft_suite(profile_table("flights_raw", first, last, KEY), "draft"), "draft")


def told(suite: suites.Suite, *days: dt.date, allowed: float = 0.1) -> list[Replayed]:
    return list(replay(suite, "flights_raw", "flights", days, allowed))


def with_values(column: str, value: Any, number: int = 3) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(column)
        values = [value] * number + rows[column].to_pylist()[number:]
        return rows.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))

    return change


def test_a_draft_passes_on_the_window_it_was_made_of(week: list[dt.date]) -> None:
    suite = suite_of()
    assert len(suite.expectations) > 40
    for one in told(suite, *week):
        assert (one.verdict, list(one.failing)) == ("passed", [])


def test_every_expectation_of_a_draft_says_why_in_figures(week: list[dt.date]) -> None:
    for one in suite_of().expectations:
        why = (one.meta or {})["why"]
        assert any(letter.isdigit() for letter in why), (one.type, why)


BLOCKED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a key twice": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "no carrier": with_values("carrier", None, 1),
    "a file cut short": lambda rows: rows.slice(0, 200),
    "rows thrice": lambda rows: pa.concat_tables([rows, rows, rows]),
    "no distance": with_values("distance", None, 1),
}
ASIDE = {
    "an origin that is none": with_values("origin", "ZZZ"),
    "a distance that is none": with_values("distance", 99_999),
    "a destination in words": with_values("dest", "Boston"),
    "an absurd delay": with_values("arr_delay", 9_999.0),
}


@pytest.mark.parametrize("case", BLOCKED)
def test_a_draft_blocks_planted_faults(case: str, week: list[dt.date], stage: Stage) -> None:
    suite = suite_of()
    stage(LAST, BLOCKED[case])
    assert told(suite, LAST)[0].verdict == "blocked"


@pytest.mark.parametrize("case", ASIDE)
def test_a_draft_sets_planted_values_aside(case: str, week: list[dt.date], stage: Stage) -> None:
    suite = suite_of()
    stage(LAST, ASIDE[case])
    one = told(suite, LAST)[0]
    assert (one.verdict, one.quarantined) == ("quarantined", 3)
    assert told(suite, LAST, allowed=0.001)[0].verdict == "blocked"


def test_a_key_that_repeats_is_reported_and_said(week: list[dt.date], stage: Stage) -> None:
    stage(LAST, BLOCKED["a key twice"])
    one = next(one for one in suite_of().expectations if one.type == "expect_compound_columns_to_be_unique")
    assert one.severity == "info"
    assert "2 rows share" in (one.meta or {})["why"]


def odd(day: dt.date) -> pa.Table:
    """Columns that are hard to speak of."""
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
            "tiny": pa.array([1e-12 * one for one in range(number)], pa.float64()),
            "fresh": pa.array([one % 7 if day > FIRST else 0 for one in range(number)], pa.int64()).cast(pa.string()),
        }
    )


def test_odd_columns_get_a_draft_that_passes(home: Path) -> None:
    lake = Lake.open()
    days = [FIRST, FIRST + dt.timedelta(1), FIRST + dt.timedelta(2)]
    for day in days:
        lake.write_partition("odd_raw", day, odd(day))
    made = draft_suite(profile_table("odd_raw", FIRST, LAST), "odd")
    text = json.dumps(made, allow_nan=False)
    assert "Infinity" not in text
    for one in replay(suites.parse_suite("odd", json.loads(text), "odd"), "odd_raw", "odd", days, 0.1):
        assert (one.verdict, list(one.failing)) == ("passed", [])


def test_a_value_that_came_late_makes_no_set(home: Path) -> None:
    lake = Lake.open()
    for number in range(4):
        day = FIRST + dt.timedelta(number)
        values = ["a"] * 100 if number < 3 else ["a"] * 99 + ["b"]
        lake.write_partition("odd_raw", day, pa.table({"date": [day] * 100, "open": values, "closed": ["a"] * 100}))
    types = {one.column: one.type for one in suite_open().expectations if one.column}
    assert (types["open"], types["closed"]) == (
        "expect_column_values_to_match_regex",
        "expect_column_values_to_be_in_set",
    )


def suite_open() -> suites.Suite:
    return suites.parse_suite("odd", draft_suite(profile_table("odd_raw", FIRST, LAST), "odd"), "odd")


def test_weeks_tell_the_volume(home: Path) -> None:
    lake = Lake.open()
    days = [FIRST + dt.timedelta(number) for number in range(42)]
    for day in days:
        rows = 50 if day.weekday() >= 5 else 400
        lake.write_partition("odd_raw", day, pa.table({"date": [day] * rows, "n": list(range(rows))}))
        lake.write_partition("odd", day, pa.table({"date": [day] * rows, "n": list(range(rows))}))
    suite = suites.parse_suite("odd", draft_suite(profile_table("odd_raw", days[0], days[-1]), "odd"), "odd")
    volume = next(one for one in suite.expectations if one.type == "expect_partition_volume_to_be_in_line")
    assert (volume.kwargs["min_ratio"], volume.kwargs["max_ratio"]) == (0.5, 2.0)
    assert {one.verdict for one in replay(suite, "odd_raw", "odd", days, 0.1)} == {"passed"}
    sunday = days[-1]
    lake.write_partition("odd_raw", sunday, pa.table({"date": [sunday] * 400, "n": list(range(400))}))
    hurt = next(replay(suite, "odd_raw", "odd", [sunday], 0.1))
    assert "expect_partition_volume_to_be_in_line" in [one["expectation"] for one in hurt.failing]


def test_what_is_not_there_is_said(week: list[dt.date]) -> None:
    with pytest.raises(DataError, match="no table trains"):
        profile_table("trains", FIRST, LAST)
    with pytest.raises(DataError, match="no rows from 2014"):
        profile_table("flights_raw", dt.date(2014, 1, 1), dt.date(2014, 1, 2))
    with pytest.raises(DataError, match="lacks the column"):
        profile_table("flights_raw", FIRST, LAST, ("date", "wings"))
    with pytest.raises(DataError, match="nosuch"):
        load_changed_suite("nosuch")


@pytest.fixture
def judged(week: list[dt.date]) -> list[dt.date]:
    """Three days of the week, validated by the suite of now."""
    for day in week[:3]:
        validate.run(validate.ValidateSpec(partition=day))
    return week[:3]


def test_replay_tells_what_a_changed_suite_would_do_and_touches_nothing(judged: list[dt.date], home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
    same = list(replay(load_changed_suite("flights"), "flights_raw", "flights", judged, 0.1))
    assert [one.differs for one in same] == [False] * 3
    changed = json.loads((Path(__file__).parents[4] / "expectations/flights.json").read_text())
    rows = Lake.open().count_rows_by_day("flights_raw")
    for one in changed["expectations"]:
        if one["type"] == "expect_table_row_count_to_be_between":
            one["kwargs"]["min_value"] = max(rows[day] for day in judged)
    now = list(replay(suites.parse_suite("flights", changed, "flights"), "flights_raw", "flights", judged, 0.1))
    assert sorted(one.verdict == "blocked" for one in now) == [False, True, True]
    assert sum_up(now)["differ"] == sum_up(now)["now"]["blocked"] == 2
    assert sum_up(now)["before"]["blocked"] == 0
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()} == before


def test_a_day_that_was_never_validated_is_told(week: list[dt.date]) -> None:
    one = told(load_changed_suite("flights"), week[0])[0]
    assert one.before is None and one.differs
    assert sum_up([one])["never_validated"] == 1


def test_the_command_lines(judged: list[dt.date], commands: Any, tmp_path: Path) -> None:
    window = ("--from", str(FIRST), "--to", str(LAST))
    asked = ("expectations", "suggest", "--table", "flights_raw", *window)
    made = commands.step(*asked, "--out", "mine.json")
    assert (made.code, made.out) == (0, ""), made.err
    first = (tmp_path / "mine.json").read_bytes()
    again = commands.step(*asked, "--out", "mine.json")
    assert again.code == 2 and "--force" in again.err
    assert (tmp_path / "mine.json").read_bytes() == first
    assert commands.step(*asked, "--out", "mine.json", "--force").code == 0
    assert commands.step(*asked).out.encode() != b""
    answer = commands.step("expectations", "replay", "--suite", "mine.json", "--table", "flights_raw", *window)
    assert answer.code == 0, answer.err
    assert "7 partitions: 7 passed" in answer.out
    told = commands.step("expectations", "replay", "--suite", "mine.json", "--table", "flights_raw", *window, "--json")
    assert json.loads(told.out)["totals"]["never_validated"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
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
def test_wrong_requests(arguments: tuple[str, ...], words: str, commands: Any) -> None:
    answer = commands.step("expectations", *arguments, env={"LEEWAY_PROJECT": str(Path(__file__).parents[4])})
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
