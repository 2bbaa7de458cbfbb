"""Compare the results of the two engines about the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.validation.evaluators.rows import Rows
from pipelines.validation.suites.results import ExpectationResult

COUNTS = ("element_count", "unexpected_count", "missing_count")
MAX_ROUNDING = 1e-9
"""Largest relative difference that counts as rounding. Sums, means and deviations depend on the order of additions."""


@dataclass(frozen=True)
class Difference:
    """One expectation for which the two engines have different answers."""

    what: str
    """What differs: success, a count, the observed value, or the unexpected rows."""
    ours: ExpectationResult
    theirs: ExpectationResult

    def describe(self) -> str:
        """Describe both answers on one line."""
        expectation = self.ours.expectation
        column = f" of {expectation.column}" if expectation.column else ""
        answers = [_describe_answer(result) for result in (self.ours, self.theirs)]
        return f"{expectation.type}{column} ({self.what}): DuckDB {answers[0]}; Great Expectations {answers[1]}"

    def to_json_values(self) -> dict[str, Any]:
        """Return both complete answers as JSON values."""
        return {"what": self.what, "duckdb": self.ours.to_json_values(), "gx": self.theirs.to_json_values()}


def compare_results(pairs: Sequence[tuple[ExpectationResult, ExpectationResult]], rows: Rows) -> list[Difference]:
    """Compare the verdict, the counts, the observed value and the unexpected rows of each expectation.

    Args:
        pairs: for each expectation the result of DuckDB, and that of Great Expectations.
        rows: rows that both judged.
    """
    return [Difference(what, ours, theirs) for ours, theirs in pairs if (what := _find_difference(ours, theirs, rows))]


def _find_difference(ours: ExpectationResult, theirs: ExpectationResult, rows: Rows) -> str:
    """Return what differs; empty if nothing does."""
    if ours.success != theirs.success and not _differ_by_rounding(ours, theirs):
        return "success"
    if ours.error and theirs.error:
        return ""
    for name in COUNTS:
        # Great Expectations adds no count of distinct values where there are none.
        if (ours.result.get(name) or 0) != (theirs.result.get(name) or 0):
            return name
    if not _is_equal(ours.result.get("observed_value"), theirs.result.get("observed_value")):
        return "observed_value"
    has_unexpected_sql = bool(ours.unexpected_sql and theirs.unexpected_sql)
    return "unexpected rows" if has_unexpected_sql and _count_different_rows(ours, theirs, rows) else ""


def _differ_by_rounding(ours: ExpectationResult, theirs: ExpectationResult) -> bool:
    """Return whether the observed values differ, but only by rounding: a bound may then lie between them."""
    values = [result.result.get("observed_value") for result in (ours, theirs)]
    return all(isinstance(value, float) for value in values) and values[0] != values[1] and _is_equal(*values)


def _is_equal(our_value: Any, their_value: Any) -> bool:
    """Return whether two observed values are equal, apart from rounding and notation."""
    numbers = [_to_number(value) for value in (our_value, their_value)]
    if None not in numbers:
        return numbers[0] == numbers[1] or math.isclose(*numbers, rel_tol=MAX_ROUNDING)  # type: ignore[arg-type]
    if isinstance(our_value, list) and isinstance(their_value, list):
        return len(our_value) == len(their_value) and all(map(_is_equal, our_value, their_value))
    missing_values = (None, "NaT", "nan")
    return our_value == their_value or (our_value in missing_values and their_value in missing_values)


def _to_number(value: Any) -> float | None:
    """Return a number, also an infinite one that is written as text; None for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if math.isnan(value) else value
    return float(value) if value in ("inf", "-inf") else None


def _count_different_rows(ours: ExpectationResult, theirs: ExpectationResult, rows: Rows) -> int:
    """Count the rows that only one of the engines takes for unexpected."""
    condition = f"({ours.unexpected_sql}) IS DISTINCT FROM ({theirs.unexpected_sql})"
    return int(rows.query("count(*)", where=condition)[0][0])


def _describe_answer(result: ExpectationResult) -> str:
    answer = "holds" if result.success else "fails"
    details = [text for text in (result.error or result.observed, _join_examples(result.examples)) if text]
    return f"{answer} ({', '.join(details)})" if details else answer


def _join_examples(examples: Sequence[str]) -> str:
    return f"e.g. {', '.join(examples)}" if examples else ""
