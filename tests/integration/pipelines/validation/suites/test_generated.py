# ruff: noqa: E501 (the tables of strategies)
"""Compare each of our evaluators with the installed Great Expectations, over generated tables and expectations.

A version of the library that changes a verdict, a count or an unexpected row fails here. `make test` draws the same few
examples each time; `make soak` draws many.
"""

import datetime as dt
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipelines.validation import suites
from pipelines.validation.evaluators.duckdb_expectations import ADDED_EXPECTATIONS, DUCKDB_EXPECTATIONS
from pipelines.validation.suites.comparing import compare_results
from tests.tools.generated_tables import (
    COLUMNS,
    DAYS,
    FLOATS,
    INF,
    LONGS,
    MOMENTS,
    SMALL,
    TEXTS,
    draw_table,
    open_table,
)

NUMBERS, WORD_COLUMNS = ("i", "i2", "j", "f", "g"), ("s", "t")
REGEXES = (
    "a", "^a$", "^.$", ".", "", r"\d", r"^\w+$", r"\bb", r"(?s)^.*$", r"(?i)A", r"a\Z", "a(?=b)", r"(.)\1", r"\s", r"\S+$",
    "[[:alpha:]]", "^[a-z]{1,2}$", "a{,2}b", "[^a]", "é|日", "(?m)^b$", "(?P<x>z)+", "[日-本]", r"\x00", "^$", r"\W", "ß|SS",
)  # fmt: skip


MOSTLY = st.sampled_from([{}, {"mostly": 1.0}, {"mostly": 0.0}, {"mostly": 0.5}, {"mostly": 2 / 3}]) | st.floats(
    0, 1
).map(lambda share: {"mostly": share})
BOUND = st.none() | SMALL | LONGS | FLOATS.filter(lambda value: abs(value) < INF)


def draw_range(bound: st.SearchStrategy[Any] = BOUND) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={"min_value": bound, "max_value": bound, "strict_min": st.booleans(), "strict_max": st.booleans()}
    )


def draw_column(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(names or tuple(COLUMNS)).map(lambda name: {"column": name})


def merge(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Merge drawn kwargs."""
    return st.tuples(*parts).map(lambda drawn: {name: value for part in drawn for name, value in part.items()})


def has_bound(kwargs: dict[str, Any]) -> bool:
    return kwargs.get("min_value") is not None or kwargs.get("max_value") is not None


VALUE_RANGE = (
    merge(draw_column(*NUMBERS), draw_range(), MOSTLY)
    | merge(draw_column("day"), draw_range(DAYS.map(str)), MOSTLY)
    | merge(draw_column("at"), draw_range(MOMENTS.map(dt.datetime.isoformat)), MOSTLY)
).filter(has_bound)
SETS = (
    merge(draw_column(*NUMBERS), st.fixed_dictionaries({"value_set": st.lists(SMALL | LONGS | FLOATS.filter(lambda v: abs(v) < INF), min_size=1, max_size=4)}))
    | merge(draw_column(*WORD_COLUMNS), st.fixed_dictionaries({"value_set": st.lists(TEXTS, min_size=1, max_size=4)}))
)  # fmt: skip
LENGTH = st.integers(-1, 4)
PAIR = merge(
    st.sampled_from([("f", "g"), ("i", "i2"), ("s", "t"), ("day", "day2"), ("at", "at2"), ("i", "j"), ("f", "f"), ("i", "f"), ("s", "i")]).map(
        lambda pair: dict(zip(("column_A", "column_B"), pair, strict=True))
    ),
    MOSTLY,
    st.sampled_from([{}, *({"ignore_row_if": rule} for rule in ("both_values_are_missing", "either_value_is_missing", "neither"))]),
)  # fmt: skip
SEVERAL = merge(
    st.lists(st.sampled_from(list(COLUMNS)), min_size=2, max_size=3, unique=True).map(lambda names: {"column_list": names}),
    MOSTLY,
    st.sampled_from([{}, *({"ignore_row_if": rule} for rule in ("all_values_are_missing", "any_value_is_missing", "never"))]),
)  # fmt: skip
AGGREGATE = merge(draw_column(*NUMBERS), draw_range())
DISTINCT_SHARE = merge(draw_column(), draw_range(st.none() | st.integers(0, 1) | st.sampled_from([0.25, 0.5, 1.0])))
DISTINCT_COUNT = merge(draw_column(), draw_range(st.none() | st.integers(0, 8) | st.sampled_from([0.25, 1.5, 2.0])))
PATTERN = merge(draw_column(*WORD_COLUMNS), st.sampled_from(REGEXES).map(lambda regex: {"regex": regex}), MOSTLY)
NAMES = st.lists(st.sampled_from([*COLUMNS, "z"]), max_size=4) | st.permutations(list(COLUMNS))
COUNT = draw_range(st.none() | st.integers(0, 6)).map(
    lambda kwargs: kwargs | ({"max_value": kwargs["max_value"] + 6} if kwargs.get("max_value") is not None else {})
)

KWARGS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "expect_table_row_count_to_be_between": COUNT,
    "expect_table_row_count_to_equal": st.fixed_dictionaries({"value": st.integers(0, 8)}),
    "expect_table_column_count_to_be_between": st.fixed_dictionaries(
        {}, optional={"min_value": st.none() | st.integers(10, 14), "max_value": st.none() | st.integers(10, 14)}
    ),
    "expect_table_column_count_to_equal": st.fixed_dictionaries({"value": st.integers(11, 13)}),
    "expect_table_columns_to_match_set": st.fixed_dictionaries(
        {"column_set": NAMES}, optional={"exact_match": st.none() | st.booleans()}
    ),
    "expect_table_columns_to_match_ordered_list": st.fixed_dictionaries({"column_list": NAMES}),
    "expect_column_to_exist": merge(
        draw_column(*COLUMNS, "z"), st.fixed_dictionaries({}, optional={"column_index": st.none() | st.integers(-13, 13)})
    ),
    "expect_column_values_to_not_be_null": merge(draw_column(), MOSTLY),
    "expect_column_values_to_be_null": merge(draw_column(), MOSTLY),
    "expect_column_values_to_be_between": VALUE_RANGE,
    "expect_column_values_to_be_in_set": merge(SETS, MOSTLY),
    "expect_column_values_to_not_be_in_set": merge(SETS, MOSTLY),
    "expect_column_value_lengths_to_be_between": merge(draw_column(*WORD_COLUMNS), draw_range(st.none() | LENGTH), MOSTLY).filter(has_bound),
    "expect_column_value_lengths_to_equal": merge(draw_column(*WORD_COLUMNS), LENGTH.map(lambda value: {"value": value}), MOSTLY),
    "expect_column_values_to_match_regex": PATTERN | draw_column(*WORD_COLUMNS),
    "expect_column_values_to_not_match_regex": PATTERN,
    "expect_column_pair_values_to_be_equal": PAIR,
    "expect_column_pair_values_a_to_be_greater_than_b": merge(PAIR, st.sampled_from([{}, {"or_equal": True}, {"or_equal": False}])),
    "expect_select_column_values_to_be_unique_within_record": SEVERAL,
    "expect_column_values_to_be_unique": merge(draw_column(), MOSTLY),
    "expect_compound_columns_to_be_unique": SEVERAL,
    "expect_column_min_to_be_between": AGGREGATE,
    "expect_column_max_to_be_between": AGGREGATE,
    "expect_column_mean_to_be_between": AGGREGATE,
    "expect_column_sum_to_be_between": AGGREGATE,
    "expect_column_median_to_be_between": AGGREGATE,
    "expect_column_stdev_to_be_between": AGGREGATE,
    "expect_column_unique_value_count_to_be_between": DISTINCT_COUNT,
    "expect_column_proportion_of_unique_values_to_be_between": DISTINCT_SHARE,
    "expect_column_distinct_values_to_be_in_set": SETS,
    "expect_column_distinct_values_to_contain_set": SETS,
    "expect_column_distinct_values_to_equal_set": SETS,
}  # fmt: skip


def test_each_of_our_evaluators_is_drawn() -> None:
    assert KWARGS.keys() == DUCKDB_EXPECTATIONS.keys() - ADDED_EXPECTATIONS.keys()


def check_example(kind: str, table: pa.Table, drawn_kwargs: list[dict[str, Any]]) -> None:
    expectations = [{"type": kind, "kwargs": kwargs, "severity": "warning"} for kwargs in drawn_kwargs]
    suite = suites.parse_suite("drawn", {"expectations": expectations}, "drawn")
    rows = open_table(table)
    results = suites.judge(suite, rows).results
    duckdb_results = [result for result in results if result.engine == "duckdb"]
    if not duckdb_results:
        return
    duckdb_suite = replace(suite, expectations=[result.expectation for result in duckdb_results])
    gx_results = suites.judge(duckdb_suite, rows, "gx").results
    differences = compare_results(list(zip(duckdb_results, gx_results, strict=True)), rows)
    texts = [
        f"{difference.describe()} {difference.duckdb_result.expectation.kwargs} {difference.gx_result.error}\n{table.to_pydict()}"
        for difference in differences
    ]
    assert not texts, texts[0]


def compare_engines(kind: str, max_examples: int, kwargs_per_table: int, *, is_random: bool) -> None:
    """Compare both engines on drawn tables. A failing example is not shrunk, because that takes minutes."""

    @settings(
        max_examples=max_examples, derandomize=not is_random, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        table=draw_table(), drawn_kwargs=st.lists(KWARGS[kind], min_size=kwargs_per_table, max_size=kwargs_per_table)
    )
    def check(table: pa.Table, drawn_kwargs: list[dict[str, Any]]) -> None:
        check_example(kind, table, drawn_kwargs)

    check()


@pytest.mark.parametrize("tables", [3, pytest.param(5, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", KWARGS)
def test_an_evaluator_decides_as_great_expectations(kind: str, tables: int) -> None:
    compare_engines(kind, tables, 2, is_random=False)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KWARGS)
def test_an_evaluator_decides_as_great_expectations_on_many_tables(kind: str) -> None:
    compare_engines(kind, 150, 6, is_random=True)
