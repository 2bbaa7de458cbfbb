"""Compare the results of DuckDB and of Great Expectations about the same rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.validation.evaluators.rows import Rows
from pipelines.validation.suites.results import ExpectationResult

COUNTS = ("element_count", "unexpected_count", "missing_count")
"""Fields of a result that are numbers of rows or values."""
MAX_ROUNDING = 1e-9
"""Largest relative difference that rounding explains. Sums, means and deviations depend on the order of additions."""
SUM_EXPECTATIONS = (
    "expect_column_mean_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
)
"""Expectations whose observed value comes from a sum. Large values may cancel, but their rounding errors stay."""

MAX_SQUARABLE = 1e150
"""Largest value whose square, summed over many rows, does not exceed the range of a float."""


@dataclass(frozen=True)
class Difference:
    """One expectation for which the two engines have different answers."""

    aspect: str
    """What differs: success, a count, the observed value, or the unexpected rows."""
    duckdb_result: ExpectationResult
    gx_result: ExpectationResult

    def describe(self) -> str:
        """Describe both answers on one line."""
        expectation = self.duckdb_result.expectation
        column = f" of {expectation.column}" if expectation.column else ""
        answers = [_describe_answer(result) for result in (self.duckdb_result, self.gx_result)]
        return f"{expectation.type}{column} ({self.aspect}): DuckDB {answers[0]}; Great Expectations {answers[1]}"

    def to_json_values(self) -> dict[str, Any]:
        """Return both complete answers as JSON values."""
        return {
            "what": self.aspect,
            "duckdb": self.duckdb_result.to_json_values(),
            "gx": self.gx_result.to_json_values(),
        }


def compare_results(pairs: Sequence[tuple[ExpectationResult, ExpectationResult]], rows: Rows) -> list[Difference]:
    """Compare the verdict, the counts, the observed value and the unexpected rows of each expectation.

    Args:
        pairs: for each expectation the result of DuckDB, and that of Great Expectations.
        rows: rows that both judged.
    """
    return [
        Difference(aspect, duckdb_result, gx_result)
        for duckdb_result, gx_result in pairs
        if (aspect := _find_difference(duckdb_result, gx_result, rows))
    ]


def _find_difference(duckdb_result: ExpectationResult, gx_result: ExpectationResult, rows: Rows) -> str:
    """Return what differs; empty if nothing does."""
    tolerance = _compute_tolerance(duckdb_result, rows)
    if duckdb_result.success != gx_result.success and not _differ_by_rounding(duckdb_result, gx_result, tolerance):
        return "success"
    if duckdb_result.error and gx_result.error:
        return ""
    for name in COUNTS:
        # A count that a result lacks is 0: Great Expectations leaves it out, for example if a column has no distinct
        # values.
        if (duckdb_result.result.get(name) or 0) != (gx_result.result.get(name) or 0):
            return name
    if not _is_equal(duckdb_result.result.get("observed_value"), gx_result.result.get("observed_value"), tolerance):
        return "observed_value"
    has_unexpected_sql = bool(duckdb_result.unexpected_sql and gx_result.unexpected_sql)
    return "unexpected rows" if has_unexpected_sql and _count_different_rows(duckdb_result, gx_result, rows) else ""


def _compute_tolerance(result: ExpectationResult, rows: Rows) -> float:
    """Compute the largest absolute difference between two observed values that rounding explains.

    The result is 0 if the observed value is not a sum, or if the column has an infinite value or no values. The result
    is infinite if the squares of the values exceed the range of a float: then the standard deviation of Great
    Expectations is infinite.
    """
    expectation = result.expectation
    if expectation.type not in SUM_EXPECTATIONS or result.error:
        return 0.0
    value = rows.build_value_sql(expectation.column)
    count, largest_value = rows.query(f"count({value}), max(abs({value}::DOUBLE))")[0]
    if largest_value is None or not math.isfinite(largest_value):
        return 0.0
    if largest_value > MAX_SQUARABLE:
        return math.inf
    # Each of the `count` additions rounds a sum of at most `count` times the largest value. A mean divides by `count`.
    rounding_count = count**2 if expectation.type == "expect_column_sum_to_be_between" else count
    return float(rounding_count * largest_value * sys.float_info.epsilon)


def _differ_by_rounding(duckdb_result: ExpectationResult, gx_result: ExpectationResult, tolerance: float) -> bool:
    """Return whether the observed values, or a value and its bound, differ only by rounding.

    Great Expectations compares a long integer with its bound as floats, which have no odd numbers above 2**53. DuckDB
    compares them exactly.
    """
    values = [result.result.get("observed_value") for result in (duckdb_result, gx_result)]
    if values[0] == values[1] and isinstance(values[0], int):
        bounds = [duckdb_result.expectation.kwargs.get(name) for name in ("min_value", "max_value")]
        return any(bound is not None and values[0] != bound and float(values[0]) == float(bound) for bound in bounds)
    are_floats = all(isinstance(value, float) for value in values)
    return are_floats and values[0] != values[1] and _is_equal(values[0], values[1], tolerance)


def _is_equal(duckdb_value: Any, gx_value: Any, tolerance: float = 0.0) -> bool:
    """Return whether two observed values are equal, apart from rounding and notation.

    Args:
        duckdb_value: value of DuckDB.
        gx_value: value of Great Expectations.
        tolerance: absolute difference that is taken for rounding, whatever the size of the values.
    """
    numbers = [_to_number(value) for value in (duckdb_value, gx_value)]
    if None not in numbers:
        return (
            numbers[0] == numbers[1]
            or math.isinf(tolerance)
            or math.isclose(
                *numbers,  # type: ignore[arg-type]
                rel_tol=MAX_ROUNDING,
                abs_tol=tolerance,
            )
        )
    if isinstance(duckdb_value, list) and isinstance(gx_value, list):
        return len(duckdb_value) == len(gx_value) and all(map(_is_equal, duckdb_value, gx_value))
    missing_values = (None, "NaT", "nan")
    return duckdb_value == gx_value or (duckdb_value in missing_values and gx_value in missing_values)


def _to_number(value: Any) -> float | None:
    """Return the value as a number, even if it is infinite and written as text; None for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if math.isnan(value) else value
    return float(value) if value in ("inf", "-inf") else None


def _count_different_rows(duckdb_result: ExpectationResult, gx_result: ExpectationResult, rows: Rows) -> int:
    """Count the rows that only one of the engines considers unexpected."""
    condition = f"({duckdb_result.unexpected_sql}) IS DISTINCT FROM ({gx_result.unexpected_sql})"
    return int(rows.query("count(*)", where=condition)[0][0])


def _describe_answer(result: ExpectationResult) -> str:
    answer = "holds" if result.success else "fails"
    details = [text for text in (result.error or result.observed, _join_examples(result.examples)) if text]
    return f"{answer} ({', '.join(details)})" if details else answer


def _join_examples(examples: Sequence[str]) -> str:
    return f"e.g. {', '.join(examples)}" if examples else ""
