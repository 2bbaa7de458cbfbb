"""Test the outcome of the step for the requests of several versions."""

from __future__ import annotations

import datetime as dt

import pytest

from pipelines.serving.skew.comparison import Skew, judge_skew
from pipelines.steps.skew import Comparison, SkewResult, SkewSpec, summarize

SPEC = SkewSpec(
    dataset="flights", model="flights", partition=dt.date(2013, 2, 1), rows="rows.parquet", version="2", min_rows=100
)

TOO_MANY = "more than 1.00% of the rows differ in distance (2.00%)"


def compare(**different_rows: tuple[int, int]) -> SkewResult:
    """Return the result for versions v1, v2, ...: each with its rows, and how many of them differ in distance."""
    comparisons = {}
    for name, (rows, count) in different_rows.items():
        skew = Skew(rows, 1, {"distance": count, "leeway.score": 0})
        comparisons[name[1:]] = Comparison(skew, judge_skew(skew, SPEC.max_share, SPEC.min_rows), name == "v1")
    return summarize(SPEC, "flights_skew", comparisons)


@pytest.mark.parametrize(
    ("versions", "outcome", "reason"),
    [
        ({}, "undecided", "0 rows of requests, and 100 are needed"),
        ({"v1": (50, 0)}, "undecided", "50 rows of requests, and 100 are needed"),
        ({"v1": (500, 0), "v2": (50, 50)}, "ok", ""),
        ({"v1": (5_000, 0), "v2": (200, 4)}, "skew", f"version 2: {TOO_MANY}"),
        ({"v2": (200, 4)}, "skew", TOO_MANY),
    ],
)
def test_a_version_with_skew_is_not_hidden_by_another_one(
    versions: dict[str, tuple[int, int]], outcome: str, reason: str
) -> None:
    result = compare(**versions)
    assert (result.outcome, result.reason, result.fail) == (outcome, reason, False)


def test_the_largest_share_and_all_rows_are_reported() -> None:
    result = compare(v1=(1_000, 0), v2=(200, 4))
    assert (result.rows, result.unmatched, result.different_shares) == (1_200, 2, {"distance": 0.02})
    assert (result.versions, result.changed) == (["1", "2"], True)
