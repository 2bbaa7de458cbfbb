"""Test that too little data is undecided, whatever the candidate looks like, and that the verdict says what to do."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.evaluation.gates import PASSED, UNDECIDED, Check, Policy
from pipelines.evaluation.gates.checks import check_estimate
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.remedy import find_remedy
from pipelines.evaluation.statistics.estimate import Estimate

OFF: dict[str, Any] = {
    **dict.fromkeys(("slices", "stability", "max_solo_auc", "serving")),
    **{"baseline": [], "champion": [], "min_rows": 1, "bounds": {"auc": {"at_least": 0.01}}},
}
"""Policy that requires nothing but an AUC of 0.01."""


def build_holdout(days: int, rows_per_day: int = 200, seed: int = 1) -> Holdout:
    """Simulate a candidate that is much better than its champion on every day."""
    random, rows = np.random.default_rng(seed), days * rows_per_day
    label = (random.random(rows) < 0.3).astype(float)
    candidate, champion = (1 / (1 + np.exp(1 - random.normal(gain * label))) for gain in (3.0, 0.5))
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(rows) // rows_per_day, unit="D")
    frame = pd.DataFrame({"date": dates, "origin": random.choice(["EWR", "JFK"], rows)})
    return Holdout(label, candidate, champion, frame, 0.3, 0.3)


def judge_holdout(holdout: Holdout, **policy: Any) -> dict[str, Check]:
    """Return the checks by name, without that of the number of rows."""
    checks = judge(JudgedData(holdout), Policy(**{**OFF, **policy})).checks
    return {check.name: check for check in checks if check.name != "rows of holdout"}


BY_DAYS: dict[str, Any] = {
    **{"group_by": "date", "threshold": 0.5, "baseline": ["log_loss", "auc"]},
    "bounds": {"auc": {"at_least": 0.5, "at_most": 0.99}, "ece": {"at_most": 0.9}, "log_loss": {"at_most": 5.0}},
    "champion": [{"metric": "auc", "margin": 0.5}, {"metric": "pr_auc", "margin": 0.5}],
}
"""Conditions that the candidate meets by far, decided by days."""


@pytest.mark.parametrize("days", [1, 2, 9])
def test_with_too_few_days_everything_by_days_is_undecided(days: int) -> None:
    checks = judge_holdout(build_holdout(days), **BY_DAYS)
    assert len(checks) == 11
    for check in checks.values():
        assert (check.outcome, check.groups_needed, check.rows_needed) == (UNDECIDED, 10, 2_000), check
        assert f"{days} days are too few to decide, at least 10 are needed" in check.reason
        assert (check.low, check.high) == (None, None) or "correctly" in check.name


def test_with_enough_days_the_same_candidate_passes() -> None:
    checks = judge_holdout(build_holdout(10), **BY_DAYS)
    assert {check.outcome for check in checks.values()} == {PASSED}, checks
    checks_of_nine_days = judge_holdout(build_holdout(9), **BY_DAYS, min_groups=9).values()
    assert not [check for check in checks_of_nine_days if "too few" in check.reason]


def build_disagreement(gained: int, lost: int, rows: int = 6_000) -> Holdout:
    """Build a holdout where, at 0.5, both models are right on the same rows, apart from `gained` and `lost` rows.

    Only the candidate is right on the `gained` rows, only the champion on the `lost` rows.
    """
    holdout = build_holdout(30, rows // 30)
    candidate = np.where(holdout.candidate_score >= 0.5, 0.8, 0.2)
    right_rows = np.flatnonzero((candidate >= 0.5) == (holdout.label == 1))
    random = np.random.default_rng(2)
    changed_rows = random.choice(right_rows, gained + lost, replace=False)
    champion = candidate + 0.01
    champion[changed_rows[:gained]] = 1 - candidate[changed_rows[:gained]]
    candidate[changed_rows[gained:]] = 1 - candidate[changed_rows[gained:]]
    return replace(holdout, candidate_score=candidate, champion_score=champion)


@pytest.mark.parametrize("group_by", ["", "date"])
@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [
        (0, 4, UNDECIDED),
        (4, 0, UNDECIDED),
        (5, 9, UNDECIDED),
        (60, 60, UNDECIDED),
        (90, 10, PASSED),
        (10, 90, "failed"),
    ],
)
def test_mcnemar_decides_only_what_is_significant(gained: int, lost: int, expected: str, group_by: str) -> None:
    holdout = build_disagreement(gained, lost)
    (check,) = [
        check
        for name, check in judge_holdout(holdout, threshold=0.5, group_by=group_by).items()
        if "predicted correctly" in name
    ]
    assert check.outcome == expected, check
    assert check.value == pytest.approx((gained - lost) / 6_000)
    assert f"only the candidate is right on {gained} rows, only the champion on {lost} (McNemar" in check.reason


def test_a_margin_lets_models_pass_that_are_as_often_right() -> None:
    def get_outcome(gained: int, lost: int, rows: int = 6_000) -> str:
        checks = judge_holdout(build_disagreement(gained, lost, rows), threshold=0.5, threshold_margin=0.01)
        return next(check.outcome for name, check in checks.items() if "predicted correctly" in name)

    assert get_outcome(60, 60) == PASSED
    assert get_outcome(10, 300) == "failed"
    assert get_outcome(0, 4) == PASSED
    assert get_outcome(0, 4, rows=300) == UNDECIDED  # 4 of 300 rows may be more than 1 %


def test_a_model_is_as_often_right_as_itself() -> None:
    holdout = build_disagreement(5, 5)
    equal_models = replace(holdout, champion_score=holdout.candidate_score)
    for group_by in ("", "date"):
        outcomes = [
            check.outcome
            for name, check in judge_holdout(equal_models, threshold=0.5, group_by=group_by).items()
            if "correct" in name
        ]
        assert outcomes == [PASSED]


@pytest.mark.parametrize("metric", ["auc", "pr_auc", "accuracy", "brier", "f1", "log_loss", "ece"])
def test_a_few_separated_rows_never_pass(metric: str) -> None:
    for rows in (4, 40):
        label = (np.arange(rows) % 2).astype(float)
        frame = pd.DataFrame({"date": pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(rows), unit="D")})
        perfect = Holdout(label, label * 0.98 + 0.01, 1 - label, frame, 0.5, 0.5)
        bound = {"at_most": 0.5} if metric in ("brier", "log_loss", "ece") else {"at_least": 0.5}
        checks = judge(JudgedData(perfect), Policy(**{**OFF, "bounds": {metric: bound}})).checks
        assert UNDECIDED in {check.outcome for check in checks}, checks


def test_needed_days_decide_at_the_present_difference_and_variance() -> None:
    policy = Policy(group_by="date")
    estimate = Estimate.from_standard_error(-0.001, 0.012, 25_000, 0.05, -1.0, 1.0, groups=28, degrees_of_freedom=4)
    check = check_estimate("auc", estimate, -0.02, policy)
    assert check.outcome == UNDECIDED
    assert check.groups_needed
    assert f"about {check.groups_needed} days of holdout would decide, {check.groups_needed - 28} more" in check.reason
    assert check.rows_needed == pytest.approx(check.groups_needed * 25_000 / 28, abs=1)
    later_estimate = Estimate.from_standard_error(
        -0.001,
        0.012 * (28 / check.groups_needed) ** 0.5,
        50_000,
        0.05,
        -1.0,
        1.0,
        check.groups_needed,
        degrees_of_freedom=6,
    )
    assert check_estimate("auc", later_estimate, -0.02, policy).outcome == PASSED
    by_carrier = check_estimate("auc", estimate, -0.02, Policy(group_by="carrier"))
    assert "groups by carrier of holdout would decide" in by_carrier.reason


def build_check(outcome: str, rows_needed: int | None = None) -> Check:
    return Check(name="auc", value=0.6, bound=0.6, outcome=outcome, rows_needed=rows_needed, reason="")


def test_the_remedy_names_the_days_and_what_else_can_be_done() -> None:
    checks = [build_check(PASSED), build_check(UNDECIDED, 50_000), build_check(UNDECIDED, 60_000)]
    remedy = find_remedy(checks, 28_000, 28, needs_approval=False)
    assert remedy.days_needed == 60
    text = " ".join(remedy.next_steps)
    assert "About 60 days" in text and "32 more than the 28 of this holdout" in text and "holdout_days to 60" in text
    assert "Nobody has to decide" in text and "gate.approval: when_undecided" in text
    assert "A person has to decide" in " ".join(find_remedy(checks, 28_000, 28, needs_approval=True).next_steps)


def test_the_remedy_says_when_no_number_of_days_would_decide() -> None:
    remedy = find_remedy([build_check(UNDECIDED, 50_000), build_check(UNDECIDED)], 28_000, 28, needs_approval=False)
    assert remedy.days_needed is None
    assert "It is not known how many days" in remedy.next_steps[0]


@pytest.mark.parametrize("outcome", [PASSED, "failed"])
def test_a_decided_verdict_needs_no_remedy(outcome: str) -> None:
    assert find_remedy([build_check(outcome)], 28_000, 28, needs_approval=False).next_steps == []


def test_an_undecided_check_without_groups_needs_more_rows_than_it_has() -> None:
    """A large relevant effect needs fewer rows than there are, but these rows have left the check undecided."""
    estimate = Estimate.from_standard_error(0.05, 0.055 / 1.645, 1_000, 0.05, -1.0, 1.0)
    check = check_estimate("auc", estimate, 0.0, Policy(), relevant_effect=0.1)
    assert check.outcome == UNDECIDED
    assert check.rows_needed == 1_001
    assert "about 1,001 rows of holdout would decide, 1 more than now" in check.reason
