# ruff: noqa: E501 (the tables of cases)
"""Test that our checks and Great Expectations' pandas engine give the same verdicts, counts and observed values."""

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.lake import Lake
from pipelines.validation import suites
from pipelines.validation.evaluators.duckdb_expectations import ADDED_EXPECTATIONS, DUCKDB_EXPECTATIONS
from pipelines.validation.evaluators.rows import Rows
from pipelines.validation.suites import gx_engine, judging

DAY = dt.date(2013, 1, 1)
MOMENT = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)
NAN, INF = float("nan"), float("inf")
N = 12
DATA = pa.table(
    {
        "date": [DAY] * N,
        "i": pa.array([1, 2, 2, None, 5, -7, 0, 9, 9, 9, 2, None], pa.int32()),
        "j": pa.array([1, 3, 1, None, 5, -8, 2**40, 9, 8, 9, None, 4], pa.int64()),
        "k": pa.array(range(N), pa.int64()),
        "f": pa.array([0.1, 2.5, NAN, None, 1e300, -0.0, 0.0, 2.5, 3.25, 7.0, 7.0, 100.0]),
        "g": pa.array([0.1, 2.4, NAN, 1.0, 1e300, 0.0, None, 2.5, 3.5, 7.0, None, 99.0]),
        "full": pa.array([0.1, 2.5, NAN, 7.0] * 3),  # Parquet's statistics of it ignore NaN, and it has no null
        "inf": pa.array([INF, 1.0, 2.0, 3.0] * 3),
        "s": ["a", "ab", "", None, "é", "a\nb", "zz\n", "2013-01-01", "2013-02-30", "x1", "ab", "日本語"],
        "t": ["a", "aa", "", None, "é", "b", "c", "2013-01-01", "x", "x1", None, "y"],
        "b": [True, False, None, True] * 3,
        "day": pa.array([DAY, None, dt.date(2013, 5, 5), dt.date(2012, 12, 31)] * 3, pa.date32()),
        "at": pa.array([MOMENT, None, MOMENT + dt.timedelta(1), MOMENT] * 3, pa.timestamp("us", tz="UTC")),
        "no": pa.array([None] * N, pa.int32()),
        "nof": pa.array([None, NAN] * 6, pa.float64()),
        "nos": pa.array([None] * N, pa.string()),
    }
)
NUMBERS, TEXTS = ("i", "j", "k", "f", "full", "g", "no", "nof"), ("s", "t", "nos")
SEVERAL = (("i", "j"), ("s", "t"), ("i", "s"), ("f", "g"), ("no", "nof"), ("day", "at", "b"))


def create_column_expectations(short: str, columns: Any, *more_kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the expectations `expect_column_SHORT` of some columns, each with each of `more_kwargs`."""
    return [
        {"type": f"expect_column_{short}", "kwargs": {"column": name, **kwargs}}
        for name in columns
        for kwargs in more_kwargs or ({},)
    ]


def list_ranges(*bounds: Any) -> list[dict[str, Any]]:
    """Return all pairs of bounds, strict and not strict."""
    pairs = [
        (low, high) for low in (None, *bounds) for high in (None, *bounds) if low is None or high is None or low <= high
    ]
    return [
        {name: bound for name, bound in zip(("min_value", "max_value"), pair, strict=True) if bound is not None}
        | strict
        for pair in pairs
        for strict in ({}, {"strict_min": True}, {"strict_max": True}, {"strict_min": True, "strict_max": True})
    ]


def select_bounded(ranges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ranges that have at least one bound."""
    return [bounds for bounds in ranges if "min_value" in bounds or "max_value" in bounds]


MOSTLY = ({}, {"mostly": 0.5}, {"mostly": 0.8}, {"mostly": 0.0})
ALL = ("i", "j", "k", "f", "full", "g", "inf", "s", "t", "b", "day", "at", "no", "nof", "nos")
REGEXES = (
    "a", "^a$", "^.$", ".", "", r"\d", r"^\w+$", r"\bb", r"(?s)^.*$", r"(?i)AB", r"a\Z", "a(?=b)", r"(.)\1", r"\s",
    "[[:alpha:]]", "^[a-z]{1,2}$", "a{,2}b", "[^a]", r"\d{4}-\d{2}-\d{2}$", "é|日", "(?m)^b$", "(?P<x>z)+", "[日-本]",
)  # fmt: skip
SUITES: dict[str, list[dict[str, Any]]] = {
    "null": [
        {"type": f"expect_column_values_to_{short}_null", "kwargs": {"column": name, **mostly}}
        for name in ALL
        for short in ("be", "not_be")
        for mostly in MOSTLY
    ],
    "between a few": create_column_expectations("values_to_be_between", NUMBERS, *select_bounded(list_ranges(2))),
    "between": create_column_expectations("values_to_be_between", NUMBERS, *select_bounded(list_ranges(0, 2, 7)), *select_bounded(list_ranges(0.1, 2.5))),
    "between mostly": create_column_expectations("values_to_be_between", NUMBERS, *({"min_value": 2, **mostly} for mostly in MOSTLY)),
    "between days": create_column_expectations(
        "values_to_be_between", ("day",), {"min_value": "2013-01-01"}, {"max_value": "2013-01-01", "strict_max": True}, {"max_value": "2013-05-05"}
    ),
    "between moments": create_column_expectations(
        "values_to_be_between",
        ("at",),
        {"min_value": "2013-01-01T06:00:00+00:00"},
        {"max_value": "2013-01-01T06:00:00+02:00"},
        {"min_value": "2013-01-01T05:00:00+00:00", "strict_min": True},
        {"min_value": "2013-01-01T05:00:00+00:00", "max_value": "2013-01-03T05:00:00Z"},
    ),
    "in set": [
        *create_column_expectations("values_to_be_in_set", ("i", "j", "k", "no"), {"value_set": [2, 9]}, {"value_set": [2, 9], "mostly": 0.4}),
        *create_column_expectations("values_to_not_be_in_set", ("i", "j", "no"), {"value_set": [2, 9]}, {"value_set": [2], "mostly": 0.7}),
        *create_column_expectations("values_to_be_in_set", ("f", "nof"), {"value_set": [0, 2.5, 7]}, {"value_set": [0.1]}),
        *create_column_expectations("values_to_not_be_in_set", ("f", "nof"), {"value_set": [0, 2.5, 7]}),
        *create_column_expectations("values_to_be_in_set", TEXTS, {"value_set": ["a", "ab", "é", "it's"]}, {"value_set": [""]}),
        *create_column_expectations("values_to_not_be_in_set", TEXTS, {"value_set": ["a", "日本語"]}),
    ],
    "lengths": [
        *create_column_expectations("value_lengths_to_be_between", TEXTS, *select_bounded(list_ranges(1, 2)), {"min_value": 1, "mostly": 0.5}),
        *create_column_expectations("value_lengths_to_equal", TEXTS, {"value": 2}, {"value": 2, "mostly": 0.2}),
    ],
    "regex": [
        *create_column_expectations("values_to_match_regex", TEXTS, *({"regex": regex} for regex in REGEXES), {"regex": "a", "mostly": 0.3}),
        *create_column_expectations("values_to_not_match_regex", TEXTS, *({"regex": regex} for regex in REGEXES)),
    ],
    "unique": [
        *create_column_expectations("values_to_be_unique", ALL, {}, {"mostly": 0.5}),
        *(
            {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": list(columns), **options}}
            for columns in SEVERAL
            for options in (
                {},
                {"ignore_row_if": "any_value_is_missing"},
                {"ignore_row_if": "never"},
                {"mostly": 0.5},
            )
        ),
    ],
    "within record": [
        {
            "type": "expect_select_column_values_to_be_unique_within_record",
            "kwargs": {"column_list": list(columns), **options},
        }
        for columns in (("s", "t"), ("f", "g"), ("s", "t", "nos"))
        for options in ({}, {"ignore_row_if": "any_value_is_missing"}, {"ignore_row_if": "never"}, {"mostly": 0.5})
    ],
    "pairs": [
        {"type": f"expect_column_pair_values_{short}", "kwargs": {"column_A": a, "column_B": b, **options, **ignore}}
        for a, b in (("f", "g"), ("g", "f"), ("s", "t"), ("i", "no"), ("k", "j"))
        for short, options in (("to_be_equal", {}), ("a_to_be_greater_than_b", {}), ("a_to_be_greater_than_b", {"or_equal": True}))
        for ignore in ({"ignore_row_if": "either_value_is_missing"}, {"mostly": 0.4, "ignore_row_if": "either_value_is_missing"})
    ] + [
        {"type": f"expect_column_pair_values_{short}", "kwargs": {"column_A": a, "column_B": b, "ignore_row_if": ignore}}
        for a, b in (("f", "g"), ("g", "f"))
        for short in ("to_be_equal", "a_to_be_greater_than_b")
        for ignore in ("both_values_are_missing", "neither")
    ],
    "aggregates": [
        expectation
        for short in ("min", "max", "mean", "median", "stdev", "sum", "unique_value_count")
        for expectation in (
            *create_column_expectations(f"{short}_to_be_between", NUMBERS, {"min_value": 1}, {"max_value": 7}, {}),
            *create_column_expectations(f"{short}_to_be_between", ("i",), *list_ranges(2, 9)),
        )
    ]
    + create_column_expectations("unique_value_count_to_be_between", ("s", "b", "day", "at", "nos"), *list_ranges(1, 3))
    + create_column_expectations("proportion_of_unique_values_to_be_between", ALL, {"min_value": 0.5}, {"max_value": 0.9})
    + [expectation for short in ("min", "max", "mean", "sum", "stdev") for expectation in create_column_expectations(f"{short}_to_be_between", ("inf",), {"min_value": 0})],
    "distinct sets": [
        expectation
        for short in ("be_in", "contain", "equal")
        for expectation in (
            *create_column_expectations(f"distinct_values_to_{short}_set", ("i", "k", "no"), {"value_set": [2, 9, 1]}, {"value_set": [-7, 0, 1, 2, 5, 9]}),
            *create_column_expectations(f"distinct_values_to_{short}_set", TEXTS, {"value_set": ["a", "ab"]}, {"value_set": ["a", "q"]}),
            *create_column_expectations(f"distinct_values_to_{short}_set", ("f",), {"value_set": [2.5, 7, 8.5]}),
        )
    ],
    "table": [
        {"type": f"expect_table_{short}", "kwargs": kwargs}
        for short, kwargs in (
            *(("row_count_to_be_between", bounds) for bounds in list_ranges(11, 12, 13)),
            *(("column_count_to_be_between", bounds) for bounds in list_ranges(14, 15, 16) if not any("strict" in name for name in bounds)),
            ("row_count_to_equal", {"value": 12}),
            ("row_count_to_equal", {"value": 13}),
            ("column_count_to_equal", {"value": 15}),
            ("column_count_to_equal", {"value": 1}),
            *(("columns_to_match_set", {"column_set": names, "exact_match": exact})
              for names in (DATA.column_names, [*DATA.column_names, "z"], ["i", "j"]) for exact in (True, False, None)),
            *(("columns_to_match_ordered_list", {"column_list": names})
              for names in (DATA.column_names, DATA.column_names[::-1], ["i"], [*DATA.column_names, "z"])),
        )
    ]
    + create_column_expectations("to_exist", ("i", "z"), {}, {"column_index": 0}, {"column_index": 1}, {"column_index": 99}, {"column_index": -1}),
}  # fmt: skip
SOAK_SUITES = ("between", "lengths", "unique", "aggregates")
"""Suites that take long. `make test` has fewer ranges, and those that `test_generated.py` draws."""
NO_ROWS = DATA.slice(0, 0)


def write_rows(rows: pa.Table) -> Lake:
    lake = Lake.open()
    lake.write_partition("some", DAY, rows)
    return lake


@pytest.fixture
def lake(home: Path) -> Lake:
    """Return a lake with `DATA` in the table `some`."""
    return write_rows(DATA)


@pytest.fixture
def rows(lake: Lake) -> Iterator[Rows]:
    """Open the rows of `DATA`."""
    with suites.open_rows(lake, "some", DAY, "some") as data_rows:
        yield data_rows


def is_equal(our_value: Any, gx_value: Any) -> bool:
    """Return whether two values are equal, except for the last digits of a sum and the text of NaT and infinity."""
    if gx_value == "NaT":
        return our_value is None
    if isinstance(gx_value, float) and math.isinf(gx_value):
        return our_value == str(float(gx_value))
    return _is_equal(our_value, gx_value)


def _is_equal(our_value: Any, gx_value: Any) -> bool:
    if isinstance(our_value, float) and isinstance(gx_value, (int, float)):
        return math.isclose(our_value, gx_value, rel_tol=1e-9)
    if isinstance(our_value, dict) and isinstance(gx_value, dict):
        return our_value.keys() == gx_value.keys() and all(is_equal(our_value[key], gx_value[key]) for key in our_value)
    if isinstance(our_value, list) and isinstance(gx_value, list):
        return len(our_value) == len(gx_value) and all(map(is_equal, our_value, gx_value))
    return bool(our_value == gx_value)


def select_comparable(result: dict[str, Any]) -> dict[str, Any]:
    """Remove what depends on the order or the index of Great Expectations' rows from a result, and sort the rest."""
    incomparable_names = {"partial_unexpected_index_list", "partial_unexpected_counts"}
    parts = {name: value for name, value in result.items() if name not in incomparable_names}
    return parts | {name: sorted(parts[name], key=str) for name in ("partial_missing_list",) if name in parts}


def test_each_known_type_is_compared() -> None:
    types = {expectation["type"] for suite in SUITES.values() for expectation in suite}
    assert types == set(DUCKDB_EXPECTATIONS) - set(ADDED_EXPECTATIONS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in SOAK_SUITES else name for name in SUITES]
)
def test_results_equal_those_of_the_pandas_engine(name: str, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suites.parse_suite(name, {"expectations": SUITES[name]}, name)
    gx_results = gx_engine.evaluate_expectations(rows, suite.expectations)
    monkeypatch.setattr(
        judging,
        "_evaluate_with_gx",
        lambda rows, remaining: [pytest.fail(str(expectation.kwargs)) for expectation in remaining],
    )
    judgement = suites.judge(suite, rows)
    differences = [
        f"{result.expectation.type} {result.expectation.kwargs}\n ours {result.success} {select_comparable(result.result)}"
        f"\n gx   {gx_result.success} {select_comparable(gx_result.result)} {str(gx_result.exception_info)[-300:]}"
        for result, gx_result in zip(judgement.results, gx_results, strict=True)
        if result.success != gx_result.success
        or not is_equal(select_comparable(result.result), select_comparable(gx_result.result))
    ]
    assert not differences, f"{len(differences)} of {len(gx_results)}:\n" + "\n".join(differences[:8])
    assert len({result.success for result in gx_results}) == 2, "some expectations hold, and some do not"
