"""What suites can do beyond Great Expectations, and what they leave to it."""

import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import DataError
from pipelines.lake import Lake
from pipelines.validation import suites

DAY = dt.date(2013, 5, 3)
WEEK = dt.timedelta(7)


def rows(number: int, day: dt.date = DAY, **columns: Any) -> pa.Table:
    return pa.table({"date": [day] * number, "n": list(range(number))} | columns)


def at(hour: int, minute: int = 0, day: dt.date = DAY) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour, minute), dt.UTC)


@pytest.fixture
def judge(home: Path) -> Callable[..., suites.Verdict]:
    """The verdict of one expectation on the staged rows of `DAY`."""

    def judged(staged: pa.Table, kind: str, **kwargs: Any) -> suites.Verdict:
        lake = Lake.open()
        lake.write_partition("raw", DAY, staged)
        suite = suites.parse_suite(
            "x", {"expectations": [{"type": kind, "kwargs": kwargs, "severity": "warning"}]}, "x"
        )
        with suites.open_rows(lake, "raw", DAY, "published") as opened:
            (verdict,) = suites.judge(suite, opened).verdicts
        return verdict

    return judged


VOLUME = "expect_partition_volume_to_be_in_line"


def test_what_was_seen_of_a_row_check_is_a_number_of_rows(judge: Any) -> None:
    within = {"column": "date", "min_value": str(DAY), "max_value": str(DAY)}
    assert judge(rows(3), "expect_column_values_to_be_between", **within).observed == "0 of 3 rows"
    within["max_value"] = within["min_value"] = str(DAY + WEEK)
    assert judge(rows(3), "expect_column_values_to_be_between", **within).observed == "3 of 3 rows (100 %)"


@pytest.mark.parametrize(("number", "success"), [(100, True), (50, True), (49, False), (201, False)])
def test_volume_is_held_against_the_same_weekday(number: int, success: bool, judge: Any) -> None:
    for weeks in range(1, 5):
        Lake.open().write_partition("published", DAY - weeks * WEEK, rows(100, DAY - weeks * WEEK))
        # Other weekdays do not count.
        Lake.open().write_partition(
            "published", DAY - weeks * WEEK + dt.timedelta(1), rows(3, DAY - weeks * WEEK + dt.timedelta(1))
        )
    verdict = judge(rows(number), VOLUME, weeks=4)
    assert verdict.success is success
    assert verdict.observed == f"{number} rows, {number / 100:.2f} of the 100 that a Friday has"
    assert verdict.result["details"]["history"]["2013-04-26"] == 100


def test_too_little_history_is_no_failure_and_said(judge: Any) -> None:
    assert judge(rows(5), VOLUME).observed.endswith("0 of the last 8 weeks are published: too few to judge by")
    for weeks in (1, 2, 9):
        Lake.open().write_partition("published", DAY - weeks * WEEK, rows(1000, DAY - weeks * WEEK))
    verdict = judge(rows(5), VOLUME)
    assert verdict.success and "2 of the last 8 weeks" in verdict.observed
    assert not judge(rows(5), VOLUME, weeks=9).success


@pytest.mark.parametrize(("moments", "hours", "success"), [
    ([at(22), at(3)], 2, True),
    ([at(22), at(3)], 1.9, False),
    ([at(2, day=DAY + dt.timedelta(1)), None], 1, True),
    ([None, None], 1000, False),
])  # fmt: skip
def test_fresh_is_the_newest_value_at_the_end_of_the_partition(
    moments: list[Any], hours: float, success: bool, judge: Any
) -> None:
    staged = rows(2, seen=pa.array(moments, pa.timestamp("us", tz="UTC")))
    assert judge(staged, "expect_partition_to_be_fresh", column="seen", max_age_hours=hours).success is success


MATCH: dict[str, Any] = {
    "columns": ["place", "seen"],
    "table": "weather",
    "other_columns": ["site", "hour"],
    "by_hour": True,
}


def weather(days: int = 1) -> None:
    for number in range(days):
        day = DAY + dt.timedelta(number)
        hours = pa.array([at(10, day=day), at(11, day=day)], pa.timestamp("us", tz="UTC"))
        Lake.open().write_partition(
            "weather", day, pa.table({"date": [day] * 2, "site": ["JFK", "EWR"], "hour": hours})
        )


def flights() -> pa.Table:
    seen = pa.array(
        [at(10, 5), at(11, 59), at(10), None, at(10, day=DAY + dt.timedelta(1))], pa.timestamp("us", tz="UTC")
    )
    return rows(5, place=["JFK", "EWR", "EWR", "JFK", "JFK"], seen=seen)


def test_rows_have_a_match_in_another_table(judge: Any) -> None:
    weather()
    verdict = judge(flights(), "expect_rows_to_have_match_in", **MATCH)
    assert not verdict.success and verdict.wrong
    counts = verdict.result["element_count"], verdict.result["missing_count"], verdict.result["unexpected_count"]
    assert counts == (5, 1, 2), "a row without a moment is not judged"
    assert verdict.result["partial_unexpected_list"][0] == {"place": "EWR", "seen": "2013-05-03T10:00:00+00:00"}
    assert judge(flights(), "expect_rows_to_have_match_in", **MATCH, mostly=0.5).success


def test_the_other_tables_days_around_count(judge: Any) -> None:
    weather(2)
    assert judge(flights(), "expect_rows_to_have_match_in", **MATCH).result["unexpected_count"] == 2
    assert judge(flights(), "expect_rows_to_have_match_in", **MATCH, days_after=1).result["unexpected_count"] == 1


def test_another_table_that_is_not_there_fails_and_says_so(judge: Any) -> None:
    verdict = judge(flights(), "expect_rows_to_have_match_in", **MATCH)
    assert (verdict.success, verdict.error, verdict.wrong) == (False, "the lake has no table weather.", "")
    day = DAY + 3 * WEEK
    Lake.open().write_partition("weather", day, pa.table({"date": [day], "site": ["JFK"], "hour": pa.array([at(1)])}))
    assert (
        "no partition from 2013-05-03 to 2013-05-03" in judge(flights(), "expect_rows_to_have_match_in", **MATCH).error
    )
    wrong = MATCH | {"other_columns": ["site", "nowhere"]}
    assert "no column nowhere" in judge(flights(), "expect_rows_to_have_match_in", **wrong).error


BY_GX: dict[str, tuple[dict[str, Any], bool, list[int]]] = {
    "a type that is not ours": (
        {"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "n"}}, True, []),
    "a condition": (
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "n", "max_value": 1, "row_condition": "n > 2", "condition_parser": "pandas"}},
        False, [3, 4]),
    "a column that is not ours to judge": (
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "small", "max_value": 2}}, False, [3, 4]),
    "a column that is not there": (
        {"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "nowhere"}}, False, []),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_GX)
def test_the_rest_is_great_expectations_own(case: str, home: Path) -> None:
    given, success, wrong = BY_GX[case]
    lake = Lake.open()
    lake.write_partition("raw", DAY, rows(5, small=pa.array(range(5), pa.float32())))
    ours = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 5}}
    suite = suites.parse_suite("x", {"expectations": [ours, given, ours]}, "x")
    with suites.open_rows(lake, "raw", DAY, "published") as opened:
        first, verdict, last = suites.judge(suite, opened).verdicts
        found = [row[0] for row in opened.query("r.n", where=verdict.wrong)] if verdict.wrong else []
    assert first.success and last.success, "in the suite's order"
    assert (verdict.success, found) == (success, wrong)
    assert ("nowhere" in verdict.error) == (case == "a column that is not there")


REFUSED: dict[str, dict[str, Any]] = {
    "a kwarg of ours misspelt": {"type": "expect_partition_to_be_fresh", "kwargs": {"column": "a", "max_age": 1}},
    "a kwarg of theirs misspelt": {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a", "mostl": 1}},
    "mostly above 1": {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a", "mostly": 2}},
    "no bound": {"type": "expect_column_values_to_be_between", "kwargs": {"column": "a"}},
    "a key misspelt": {"type": "expect_column_to_exist", "kwargs": {"column": "a"}, "severty": "info"},
    "as many columns": {"type": "expect_rows_to_have_match_in",
                        "kwargs": {"columns": ["a"], "table": "t", "other_columns": ["b", "c"]}},
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_expectation_that_is_not_valid_is_named(case: str) -> None:
    fine = {"type": "expect_column_to_exist", "kwargs": {"column": "a"}}
    suites.parse_suite("x", {"expectations": [fine]}, "x.json")
    with pytest.raises(DataError, match=r"x\.json, expectation 2"):
        suites.parse_suite("x", {"expectations": [fine, REFUSED[case]]}, "x.json")


def test_the_example_suite_does_without_great_expectations() -> None:
    code = (
        "import sys, pathlib; from pipelines.validation import suites; "
        "suites.load_suite(pathlib.Path('expectations'), 'flights'); sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[5], check=False).returncode == 0
