# ruff: noqa: E501 (the tables of cases and strategies)
"""Test row conditions: those that DuckDB evaluates select the rows that Great Expectations selects."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipelines.errors import DataError
from pipelines.validation import suites
from pipelines.validation.suites.comparing import compare_results
from tests.tools.generated_tables import FLOATS, INF, INTS, LONGS, SMALL, TEXTS, WORDS, draw_table, open_table

TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, 4, 5], pa.int32()),
        "f": [0.1, None, float("nan"), 3.0, float("inf")],
        "s": ["a", None, "b", "", "a"],
        "b": [True, None, False, True, True],
    }
)
"""Rows of one partition."""


def build_comparison(column: str, operator: str, parameter: Any) -> dict[str, Any]:
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


def build_null_condition(column: str, is_null: bool) -> dict[str, Any]:
    return {"type": "nullity", "column": {"name": column}, "is_null": is_null}


def join_conditions(kind: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "conditions": list(conditions)}


def judge(condition: Any, kind: str = "expect_column_values_to_be_null", **kwargs: Any) -> tuple[str, list[int], int]:
    """Return the engine that judged TABLE, the positions of the unexpected rows, and the number of judged rows."""
    kwargs = {"column": "i", "row_condition": condition} | kwargs
    suite = suites.parse_suite("x", {"expectations": [{"type": kind, "kwargs": kwargs, "severity": "warning"}]}, "x")
    rows = open_table(TABLE)
    (result,) = suites.judge(suite, rows).results
    rows.add_positions()
    positions = rows.query('r."leeway position"', where=result.unexpected_sql) if result.unexpected_sql else []
    return result.engine, sorted(row[0] for row in positions), result.result.get("element_count", 0)


CASES: dict[str, tuple[Any, str, list[int], int]] = {
    "a comparison": (build_comparison("i", ">", 1), "duckdb", [1, 3, 4], 3),
    "a text": (build_comparison("s", "==", "a"), "duckdb", [0, 4], 2),
    "a list": (build_comparison("s", "IN", ["a", "b"]), "duckdb", [0, 4], 3),
    "missing values meet !=": (build_comparison("s", "!=", "a"), "duckdb", [1, 3], 3),
    "missing values meet NOT_IN": (build_comparison("f", "NOT_IN", [3.0]), "duckdb", [0, 1, 4], 4),
    "a missing value": (build_null_condition("f", True), "duckdb", [1], 2),
    "and": (join_conditions("and", build_comparison("i", ">", 1), build_null_condition("f", False)), "duckdb", [3, 4], 2),
    "or": (join_conditions("or", build_comparison("i", ">", 4), join_conditions("and", build_comparison("i", "<", 3), build_comparison("s", "==", "a"))), "duckdb", [0, 4], 2),
    "!= of integers": (build_comparison("i", "!=", 1), "gx", [1, 3, 4], 4),
    "a flag": (build_comparison("b", "==", True), "gx", [0, 3, 4], 3),
    "a number for a text": (build_comparison("i", "==", 1.5), "gx", [], 0),
    "a string": ('i > 1 and s == "a"', "gx", [4], 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_only_the_rows_that_meet_the_condition_are_judged(case: str) -> None:
    condition, engine, positions, count = CASES[case]
    assert judge(condition) == (engine, positions, count)


@pytest.mark.parametrize("parser", ["pandas", "great_expectations"])
def test_strings_are_read_by_the_parser_that_the_suite_names(parser: str) -> None:
    condition = "i > 1" if parser == "pandas" else 'col("i") > 1'
    assert judge(condition, condition_parser=parser) == ("gx", [1, 3, 4], 3)


REFUSED = {
    "an unknown operator": build_comparison("i", "~", 1),
    "an unknown form": {"type": "sometimes"},
    "no constant": build_comparison("i", "==", None),
    "or within and": join_conditions(
        "and",
        join_conditions("or", build_comparison("i", ">", 1), build_comparison("i", "<", 0)),
        build_comparison("i", ">", 1),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_condition_that_great_expectations_cannot_read_is_refused(case: str) -> None:
    with pytest.raises(DataError, match="expectation 1"):
        judge(REFUSED[case])


def test_a_condition_about_a_missing_column_fails_its_expectation() -> None:
    suite = suites.parse_suite(
        "x",
        {
            "expectations": [
                {
                    "type": "expect_table_row_count_to_equal",
                    "kwargs": {"value": 1, "row_condition": build_comparison("z", ">", 1)},
                }
            ]
        },
        "x",
    )
    (result,) = suites.judge(suite, open_table(TABLE)).results
    assert not result.success and "z" in result.error


NUMBERS = SMALL | LONGS | FLOATS.filter(lambda value: abs(value) < INF)
COMPARISON = st.builds(
    build_comparison,
    st.sampled_from(["i", "i2", "j", "f"]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    NUMBERS | INTS,
) | st.builds(build_comparison, st.sampled_from(["s", "t"]), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), TEXTS)
MEMBERSHIP = st.builds(
    build_comparison,
    st.sampled_from(["i", "j"]),
    st.sampled_from(["IN", "NOT_IN"]),
    st.lists(SMALL | LONGS, min_size=1, max_size=3),
) | st.builds(
    build_comparison,
    st.sampled_from(["s", "t"]),
    st.sampled_from(["IN", "NOT_IN"]),
    st.lists(WORDS, min_size=1, max_size=3),
)
SIMPLE = (
    COMPARISON
    | MEMBERSHIP
    | st.builds(build_null_condition, st.sampled_from(["i", "j", "f", "s", "b", "at"]), st.booleans())
)
ALL = st.builds(lambda parts: join_conditions("and", *parts), st.lists(SIMPLE, min_size=1, max_size=3))
CONDITIONS = (
    SIMPLE
    | ALL
    | st.builds(lambda parts: join_conditions("or", *parts), st.lists(SIMPLE | ALL, min_size=1, max_size=3))
)
JUDGED: dict[str, dict[str, Any]] = {
    "expect_table_row_count_to_equal": {"value": 3},
    "expect_column_values_to_be_between": {"column": "f", "min_value": 0.2},
    "expect_column_values_to_be_unique": {"column": "s"},
    "expect_compound_columns_to_be_unique": {"column_list": ["i2", "t"]},
    "expect_column_mean_to_be_between": {"column": "i", "min_value": 0},
    "expect_column_distinct_values_to_be_in_set": {"column": "t", "value_set": ["a", "b"]},
    "expect_column_pair_values_to_be_equal": {"column_A": "f", "column_B": "g"},
}
"""One expectation of each kind of check, with its kwargs."""


def compare_engines(kinds: list[str], max_examples: int, *, is_random: bool) -> None:
    """Compare both engines on drawn tables and conditions, each time with one of the kinds of expectations."""

    @settings(
        max_examples=max_examples, derandomize=not is_random, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(table=draw_table(), conditions=st.lists(CONDITIONS, min_size=2, max_size=2), kind=st.sampled_from(kinds))
    def check(table: pa.Table, conditions: list[Any], kind: str) -> None:
        expectations = [
            {"type": kind, "kwargs": JUDGED[kind] | {"row_condition": condition}, "severity": "warning"}
            for condition in conditions
        ]
        suite = suites.parse_suite("drawn", {"expectations": expectations}, "drawn")
        rows = open_table(table)
        ours = [result for result in suites.judge(suite, rows).results if result.engine == "duckdb"]
        if not ours:
            return
        theirs = suites.judge(replace(suite, expectations=[result.expectation for result in ours]), rows, "gx").results
        texts = [
            f"{difference.describe()} {difference.duckdb_result.expectation.kwargs} {difference.gx_result.error}\n{table.to_pydict()}"
            for difference in compare_results(list(zip(ours, theirs, strict=True)), rows)
        ]
        assert not texts, texts[0]

    check()


@pytest.mark.soak
def test_a_condition_selects_the_rows_that_great_expectations_selects() -> None:
    compare_engines(list(JUDGED), 15, is_random=False)


@pytest.mark.soak
@pytest.mark.parametrize("kind", JUDGED)
def test_many_conditions_select_the_rows_that_great_expectations_selects(kind: str) -> None:
    compare_engines([kind], 200, is_random=True)
