"""Test the expectations that Great Expectations does not have, and those that suites pass on to it."""

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


def create_rows(number: int, day: dt.date = DAY, **columns: Any) -> pa.Table:
    return pa.table({"date": [day] * number, "n": list(range(number))} | columns)


def create_moment(hour: int, minute: int = 0, day: dt.date = DAY) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour, minute), dt.UTC)


@pytest.fixture
def judge_rows(home: Path) -> Callable[..., suites.ExpectationResult]:
    """Return the function that stages rows of `DAY` and returns the result of one expectation about them."""

    def stage_and_judge(rows: pa.Table, kind: str, **kwargs: Any) -> suites.ExpectationResult:
        lake = Lake.open()
        lake.write_partition("raw", DAY, rows)
        suite = suites.parse_suite(
            "x", {"expectations": [{"type": kind, "kwargs": kwargs, "severity": "warning"}]}, "x"
        )
        with suites.open_rows(lake, "raw", DAY, "published") as staged_rows:
            (result,) = suites.judge(suite, staged_rows).results
        return result

    return stage_and_judge


VOLUME = "expect_partition_volume_to_be_in_line"


def test_the_observed_value_of_a_row_check_is_a_number_of_rows(judge_rows: Any) -> None:
    bounds = {"column": "date", "min_value": str(DAY), "max_value": str(DAY)}
    assert judge_rows(create_rows(3), "expect_column_values_to_be_between", **bounds).observed == "0 of 3 rows"
    bounds["max_value"] = bounds["min_value"] = str(DAY + WEEK)
    assert judge_rows(create_rows(3), "expect_column_values_to_be_between", **bounds).observed == "3 of 3 rows (100 %)"


@pytest.mark.parametrize(("number", "success"), [(100, True), (50, True), (49, False), (201, False)])
def test_the_volume_is_compared_with_the_same_weekday(number: int, success: bool, judge_rows: Any) -> None:
    for weeks in range(1, 5):
        Lake.open().write_partition("published", DAY - weeks * WEEK, create_rows(100, DAY - weeks * WEEK))
        # Days of other weekdays must not count.
        Lake.open().write_partition(
            "published", DAY - weeks * WEEK + dt.timedelta(1), create_rows(3, DAY - weeks * WEEK + dt.timedelta(1))
        )
    result = judge_rows(create_rows(number), VOLUME, weeks=4)
    assert result.success is success
    assert result.observed == f"{number} rows, {number / 100:.2f} of the 100 that a Friday has"
    assert result.result["details"]["history"]["2013-04-26"] == 100


def test_too_little_history_is_reported_and_is_no_failure(judge_rows: Any) -> None:
    assert judge_rows(create_rows(5), VOLUME).observed.endswith(
        "0 of the last 8 weeks are published: too few to judge by"
    )
    for weeks in (1, 2, 9):
        Lake.open().write_partition("published", DAY - weeks * WEEK, create_rows(1000, DAY - weeks * WEEK))
    result = judge_rows(create_rows(5), VOLUME)
    assert result.success and "2 of the last 8 weeks" in result.observed
    assert not judge_rows(create_rows(5), VOLUME, weeks=9).success


@pytest.mark.parametrize(("moments", "hours", "success"), [
    ([create_moment(22), create_moment(3)], 2, True),
    ([create_moment(22), create_moment(3)], 1.9, False),
    ([create_moment(2, day=DAY + dt.timedelta(1)), None], 1, True),
    ([None, None], 1000, False),
])  # fmt: skip
def test_freshness_is_the_age_of_the_newest_value_at_the_end_of_the_partition(
    moments: list[Any], hours: float, success: bool, judge_rows: Any
) -> None:
    rows = create_rows(2, seen=pa.array(moments, pa.timestamp("us", tz="UTC")))
    assert judge_rows(rows, "expect_partition_to_be_fresh", column="seen", max_age_hours=hours).success is success


MATCH: dict[str, Any] = {
    "columns": ["place", "seen"],
    "table": "weather",
    "other_columns": ["site", "hour"],
    "by_hour": True,
}


def write_weather(days: int = 1) -> None:
    for number in range(days):
        day = DAY + dt.timedelta(number)
        hours = pa.array([create_moment(10, day=day), create_moment(11, day=day)], pa.timestamp("us", tz="UTC"))
        Lake.open().write_partition(
            "weather", day, pa.table({"date": [day] * 2, "site": ["JFK", "EWR"], "hour": hours})
        )


def create_flights() -> pa.Table:
    moments = pa.array(
        [
            create_moment(10, 5),
            create_moment(11, 59),
            create_moment(10),
            None,
            create_moment(10, day=DAY + dt.timedelta(1)),
        ],
        pa.timestamp("us", tz="UTC"),
    )
    return create_rows(5, place=["JFK", "EWR", "EWR", "JFK", "JFK"], seen=moments)


def test_rows_have_a_match_in_another_table(judge_rows: Any) -> None:
    write_weather()
    result = judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH)
    assert not result.success and result.unexpected_sql
    counts = result.result["element_count"], result.result["missing_count"], result.result["unexpected_count"]
    assert counts == (5, 1, 2), "a row without `seen` is not judged"
    assert result.result["partial_unexpected_list"][0] == {"place": "EWR", "seen": "2013-05-03T10:00:00+00:00"}
    assert judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH, mostly=0.5).success


def test_days_after_the_partition_count_on_request(judge_rows: Any) -> None:
    write_weather(2)
    assert judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH).result["unexpected_count"] == 2
    assert (
        judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH, days_after=1).result["unexpected_count"]
        == 1
    )


def test_a_missing_other_table_fails_the_expectation_and_is_named(judge_rows: Any) -> None:
    result = judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH)
    assert (result.success, result.error, result.unexpected_sql) == (False, "the lake has no table weather.", "")
    day = DAY + 3 * WEEK
    Lake.open().write_partition(
        "weather", day, pa.table({"date": [day], "site": ["JFK"], "hour": pa.array([create_moment(1)])})
    )
    assert (
        "no partition from 2013-05-03 to 2013-05-03"
        in judge_rows(create_flights(), "expect_rows_to_have_match_in", **MATCH).error
    )
    wrong_columns = MATCH | {"other_columns": ["site", "nowhere"]}
    assert "no column nowhere" in judge_rows(create_flights(), "expect_rows_to_have_match_in", **wrong_columns).error


BY_GX: dict[str, tuple[dict[str, Any], bool, list[int]]] = {
    "a type that only Great Expectations has": (
        {"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "n"}}, True, []),
    "a condition": (
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "n", "max_value": 1, "row_condition": "n > 2", "condition_parser": "pandas"}},
        False, [3, 4]),
    "a column type that only Great Expectations judges": (
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "small", "max_value": 2}}, False, [3, 4]),
    "a missing column": (
        {"type": "expect_column_values_to_be_increasing", "kwargs": {"column": "nowhere"}}, False, []),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_GX)
def test_great_expectations_judges_the_other_expectations(case: str, home: Path) -> None:
    expectation, success, wrong_rows = BY_GX[case]
    expectation = expectation | {"severity": "warning"}  # the rows of a warning are named
    lake = Lake.open()
    lake.write_partition("raw", DAY, create_rows(5, small=pa.array(range(5), pa.float32())))
    own_expectation = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 5}}
    suite = suites.parse_suite("x", {"expectations": [own_expectation, expectation, own_expectation]}, "x")
    with suites.open_rows(lake, "raw", DAY, "published") as rows:
        first, result, last = suites.judge(suite, rows).results
        rejected_rows = (
            [row[0] for row in rows.query("r.n", where=result.unexpected_sql)] if result.unexpected_sql else []
        )
    assert first.success and last.success, "the results are in the order of the suite"
    assert (result.success, rejected_rows) == (success, wrong_rows)
    assert ("nowhere" in result.error) == (case == "a missing column")


INVALID: dict[str, dict[str, Any]] = {
    "a misspelt kwarg of ours": {"type": "expect_partition_to_be_fresh", "kwargs": {"column": "a", "max_age": 1}},
    "a misspelt kwarg of GX": {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a", "mostl": 1}},
    "mostly above 1": {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a", "mostly": 2}},
    "no bound": {"type": "expect_column_values_to_be_between", "kwargs": {"column": "a"}},
    "a misspelt key": {"type": "expect_column_to_exist", "kwargs": {"column": "a"}, "severty": "info"},
    "different numbers of columns": {"type": "expect_rows_to_have_match_in",
                        "kwargs": {"columns": ["a"], "table": "t", "other_columns": ["b", "c"]}},
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_expectation_is_refused_and_named(case: str) -> None:
    expectation = {"type": "expect_column_to_exist", "kwargs": {"column": "a"}}
    suites.parse_suite("x", {"expectations": [expectation]}, "x.json")
    with pytest.raises(DataError, match=r"x\.json, expectation 2"):
        suites.parse_suite("x", {"expectations": [expectation, INVALID[case]]}, "x.json")


def test_the_flights_suite_does_not_import_great_expectations() -> None:
    code = (
        "import sys, pathlib; from pipelines.validation import suites; "
        "suites.load_suite(pathlib.Path('expectations'), 'flights'); sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[5], check=False).returncode == 0
