"""Test the verdict on how requests differ from the lake."""

from __future__ import annotations

import pytest

from pipelines.serving.skew.comparison import MAX_NAMES, Skew, judge_skew


@pytest.mark.parametrize(
    ("rows", "different_rows", "outcome", "reason"),
    [
        (1_000, 10, "ok", ""),
        (1_000, 11, "skew", "more than 1.00% of the rows differ in distance (1.10%)"),
        (99, 99, "undecided", "99 rows of requests, and 100 are needed"),
        (0, 0, "undecided", "0 rows of requests, and 100 are needed"),
    ],
)
def test_a_share_above_the_largest_one_is_skew_if_there_are_enough_rows(
    rows: int, different_rows: int, outcome: str, reason: str
) -> None:
    verdict = judge_skew(Skew(rows, 0, {"distance": different_rows, "origin": 0}), max_share=0.01, min_rows=100)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("rows", "unmatched", "reason"),
    [
        (0, 250, "none of the 250 rows of requests was found in the lake, and 100 are needed"),
        (1, 249, "1 rows of requests, and 100 are needed"),
        (0, 0, "0 rows of requests, and 100 are needed"),
    ],
)
def test_requests_whose_keys_the_lake_does_not_have_are_named(rows: int, unmatched: int, reason: str) -> None:
    verdict = judge_skew(Skew(rows, unmatched, {"distance": 0}), max_share=0.01, min_rows=100)
    assert (verdict.outcome, verdict.reason) == ("undecided", reason)


def test_a_reason_names_the_worst_features_first_and_a_limited_number() -> None:
    different_rows = {f"feature_{number}": 500 + number for number in range(MAX_NAMES + 3)}
    reason = judge_skew(Skew(1_000, 0, different_rows), max_share=0.01, min_rows=100).reason
    assert "differ in feature_12 (51.20%), feature_11" in reason
    assert reason.count("feature_") == MAX_NAMES and reason.endswith(" and 3 more")
