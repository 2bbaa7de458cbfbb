"""Test which differences between the two engines count as rounding."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.validation import suites
from pipelines.validation.suites.comparing import compare_results
from tests.tools.generated_tables import open_table

CANCELLING = pa.array([-362879, 2**53, -3, 1606, -(2**53) - 1, -1], pa.int64())
"""The mean is -60213. Great Expectations adds them as floats, and finds -60212.83."""
EQUAL = pa.array([5.129467634933014e16] * 7)
"""The standard deviation is 0. Great Expectations finds 8.64, the distance between two floats of this size."""


def count_differences(
    values: pa.Array, kind: str, added: float = 0, *, flips_verdict: bool = False, **kwargs: Any
) -> int:
    """Judge the values with both engines, change the answer of DuckDB, and count the differences.

    Args:
        values: values of the column.
        kind: part of the expectation's name.
        added: number to add to the value that DuckDB observed.
        flips_verdict: whether DuckDB's verdict is turned into its opposite.
        kwargs: bounds of the expectation.
    """
    rows = open_table(pa.table({"n": values}))
    expectation = {"type": f"expect_column_{kind}_to_be_between", "kwargs": {"column": "n", **kwargs}}
    suite = suites.parse_suite("drawn", {"expectations": [expectation | {"severity": "warning"}]}, "drawn")
    [ours], [theirs] = (suites.judge(suite, rows, engine).results for engine in ("duckdb", "gx"))
    result = ours.result | {"observed_value": ours.result["observed_value"] + added}
    ours = replace(ours, result=result, success=ours.success != flips_verdict)
    return len(compare_results([(ours, theirs)], rows))


@pytest.mark.parametrize(("kind", "values"), [("mean", CANCELLING), ("sum", CANCELLING), ("stdev", EQUAL)])
def test_rounding_errors_of_large_values_are_no_difference(kind: str, values: pa.Array) -> None:
    assert count_differences(values, kind, min_value=-1e9) == 0
    assert count_differences(values, kind, added=1e6, min_value=-1e9) == 1


def test_the_verdict_may_differ_where_only_rounding_separates_value_and_bound() -> None:
    assert count_differences(EQUAL, "stdev", max_value=0.5) == 0
    assert count_differences(pa.array([1.0, 2.0]), "stdev", added=1e-6, max_value=0.5) == 1


def test_a_maximum_is_exact_to_the_relative_rounding() -> None:
    assert count_differences(EQUAL, "max", added=1e6, min_value=0) == 0
    assert count_differences(EQUAL, "max", added=1e9, min_value=0) == 1


def test_a_deviation_whose_squares_exceed_a_float_is_not_compared() -> None:
    assert count_differences(pa.array([1e300] * 10), "stdev", min_value=2) == 0
    assert count_differences(pa.array([1e100] * 10), "stdev", added=1e99, min_value=2) == 1


def test_a_long_integer_and_its_bound_may_be_one_float() -> None:
    assert count_differences(pa.array([2**53 + 1]), "max", max_value=2**53) == 0
    assert count_differences(pa.array([2**53 + 1]), "max", max_value=2**53 - 2, flips_verdict=True) == 1
