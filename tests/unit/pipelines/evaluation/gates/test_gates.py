"""Test each check of a policy on a simulated holdout: what passes, what fails and what is undecided."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.gates import (
    FAILED,
    PASSED,
    REPORTED,
    UNDECIDED,
    Check,
    Policy,
    combine_outcomes,
    summarize_checks,
)
from pipelines.evaluation.gates.checks import check_estimate, check_row_count, check_value
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.leakage import compute_concordance_alone
from pipelines.evaluation.gates.serving import PackageMeasurements
from pipelines.evaluation.statistics.estimate import Estimate

ROWS = 6_000
NO_PARTS: dict[str, Any] = {
    **dict.fromkeys(("slices", "stability", "max_solo_auc", "serving")),
    **{"baseline": [], "champion": []},
}
"""The parts of a policy, all turned off."""


def build_holdout(rows: int = ROWS, seed: int = 1, gain: float = 0.0) -> Holdout:
    """Simulate a holdout with true probabilities as the candidate's score; the champion has less signal, by `gain`."""
    random = np.random.default_rng(seed)
    signal = random.normal(size=rows)
    candidate_score = 1 / (1 + np.exp(-(signal - 1.4)))
    label = (random.random(rows) < candidate_score).astype(float)
    champion_score = 1 / (1 + np.exp(-((1 - gain) * signal + gain * random.normal(size=rows) - 1.4)))
    days = pd.to_datetime("2013-03-01") + pd.to_timedelta(np.arange(rows) * 28 // rows, unit="D")
    frame = pd.DataFrame({"date": days, "origin": random.choice(["EWR", "JFK", "LGA"], rows), "signal": signal})
    return Holdout(
        label, candidate_score, champion_score, frame, base_rate=float(label.mean()), last_week_rate=float(label.mean())
    )


def build_policy(**parts: Any) -> Policy:
    """Build a policy of these parts alone. A policy without bounds skips the validation, which would refuse it."""
    policy = Policy(**{**NO_PARTS, **parts})
    return policy if "bounds" in parts else policy.model_copy(update={"bounds": {}})


def run_checks(rows: Holdout, evidence: JudgedData | None = None, **policy: Any) -> list[Check]:
    """Judge the rows by a policy of these parts, and return the checks."""
    full_evidence = replace(evidence, holdout=rows) if evidence else JudgedData(rows)
    return judge(full_evidence, build_policy(**{"min_rows": 1, "draws": 200, **policy})).checks


def get_outcome(rows: Holdout, name: str, evidence: JudgedData | None = None, **policy: Any) -> str:
    """Return the outcome of the only check whose name begins with `name`."""
    checks = [check for check in run_checks(rows, evidence, **policy) if check.name.startswith(name)]
    assert len(checks) == 1, [check.name for check in checks]
    return checks[0].outcome


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"bounds": {"acu": {"at_least": 0.5}}}, "names the metric 'acu'.*They have auc, pr_auc"),
        ({"bounds": {"rmse": {"at_most": 5.0}}}, "names the metric 'rmse', which models of the task binary do not"),
        ({"baseline": ["r2"]}, "names the metric 'r2'"),
        ({"champion": [{"metric": "mae"}]}, "names the metric 'mae'"),
    ],
)
def test_refuses_a_metric_that_binary_models_do_not_have(policy: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        judge(JudgedData(build_holdout(100)), Policy(**policy))


@pytest.mark.parametrize(
    "parts",
    [
        {"bounds": {"auc": {"atleast": 0.5}}},
        {"bounds": {}},
        {"min_rows": 0},
        {"min_groups": 1},
        {"threshold_margin": 1.0},
        {"bounds": {"auc": {}}},
        {"bounds": {"auc": {"at_least": -math.inf}}},
        {"bounds": {"auc": {"at_most": math.inf}}},
        {"bounds": {"auc": {"at_least": math.nan}}},
        {"champion": [{"metric": "auc", "margin": math.inf}]},
        {"max_cost_usd": math.inf},
        {"champion": [{"metric": "ece", "test": "delong"}]},
        {"alpha": 0.0},
        {"power": 1.0},
        {"min_auc": 0.6},
        {"champion": [{"metric": "auc", "test": "delong"}], "group_by": "date"},
    ],
)
def test_refuses_a_policy_that_would_check_nothing(parts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy(**parts)


@pytest.mark.parametrize(
    ("metric", "bound", "expected"),
    [
        ("auc", {"at_least": 0.5}, PASSED),
        ("auc", {"at_least": 0.95}, FAILED),
        ("auc", {"at_most": 0.95}, PASSED),
        ("auc", {"at_most": 0.5}, FAILED),
        ("log_loss", {"at_most": 0.9}, PASSED),
        ("log_loss", {"at_most": 0.1}, FAILED),
        ("brier", {"at_most": 0.25}, PASSED),
        ("ece", {"at_most": 0.1}, PASSED),
    ],
)
@pytest.mark.parametrize("group_by", ["", "date"])
def test_the_whole_interval_has_to_keep_a_bound(
    metric: str, bound: dict[str, float], expected: str, group_by: str
) -> None:
    assert get_outcome(build_holdout(), metric, bounds={metric: bound}, group_by=group_by) == expected


def test_a_bound_within_the_interval_is_undecided_and_gives_the_rows_needed() -> None:
    estimate = Estimate.from_standard_error(0.70, 0.01, 2_000, 0.05, 0.0, 1.0)
    check = check_estimate("auc", estimate, 0.69, Policy())
    assert (check.outcome, check.bound) == (UNDECIDED, 0.69)
    assert check.rows_needed
    # With that number of rows the same value passes, because its interval is narrower.
    larger_estimate = Estimate.from_standard_error(
        0.70, 0.01 * (2_000 / check.rows_needed) ** 0.5, check.rows_needed, 0.05, 0.0, 1.0
    )
    assert check_estimate("auc", larger_estimate, 0.69, Policy()).outcome == PASSED
    assert f"{check.rows_needed:,} rows" in check.reason


def test_no_number_of_rows_decides_a_value_on_its_bound() -> None:
    check = check_estimate("auc", Estimate.from_standard_error(0.70, 0.01, 2_000, 0.05, 0.0, 1.0), 0.70, Policy())
    assert (check.outcome, check.rows_needed) == (UNDECIDED, None)
    assert "no number of rows" in check.reason


def test_fails_once_the_interval_excludes_the_gain_that_matters() -> None:
    estimate = Estimate.from_standard_error(0.0, 0.001, 2_000, 0.05, -1.0, 1.0)
    assert check_estimate("gain", estimate, 0.0, Policy(), relevant_effect=0.0).outcome == UNDECIDED
    assert check_estimate("gain", estimate, 0.0, Policy(), relevant_effect=0.01).outcome == FAILED


def test_too_few_rows_are_undecided() -> None:
    check = check_row_count("rows of holdout", 4_999, 5_000)
    assert (check.outcome, check.rows_needed) == (UNDECIDED, 5_000)
    assert check_row_count("rows of holdout", 5_000, 5_000).outcome == PASSED


def test_too_few_rows_of_a_label_are_undecided() -> None:
    check = check_row_count("rows of holdout", 6_000, 5_000, {"the rarer label": 29})
    assert (check.outcome, check.rows_needed) == (UNDECIDED, 6_207)  # 30 / 29 of the rows have 30 of the label
    assert "the rarer label has 29 rows" in check.reason
    assert check_row_count("rows of holdout", 6_000, 5_000, {"the rarer label": 30}).outcome == PASSED
    none = check_row_count("rows of holdout", 6_000, 5_000, {"the class lost": 0, "the class late": 12})
    assert (none.outcome, none.rows_needed) == (UNDECIDED, None), "no number of rows has a class that never occurs"
    assert "the class lost has 0 rows" in none.reason and "the class late has 12 rows" in none.reason


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_value_that_is_not_finite_never_passes(value: float | None) -> None:
    for check in (
        check_value("size", value, at_most=1.0),
        check_value("size", 0.5, at_most=value),
        check_value("d", value, at_least=0),
    ):
        assert check.outcome == FAILED
        assert Check.model_validate_json(check.model_dump_json()) == check  # valid JSON


def test_an_exact_value_may_equal_its_bound() -> None:
    assert check_value("size", 1.0, at_most=1.0).outcome == PASSED
    assert check_value("size", 1.0, at_least=1.0).outcome == PASSED
    assert check_value("size", 1.1, at_most=1.0).outcome == FAILED


def test_the_candidate_has_to_beat_trivial_models() -> None:
    valid = build_holdout()
    useless = replace(valid, candidate_score=np.full(ROWS, valid.base_rate + 0.05))
    for name in ("log_loss against the label's rate in training", "log_loss against the label's rate in the last week"):
        assert get_outcome(valid, name, baseline=["log_loss"]) == PASSED
        assert get_outcome(useless, name, baseline=["log_loss"]) == FAILED


@pytest.mark.parametrize("metric", ["auc", "log_loss", "brier"])
@pytest.mark.parametrize("group_by", ["", "date"])
def test_the_candidate_may_not_be_worse_than_the_champion(metric: str, group_by: str) -> None:
    better = build_holdout(gain=0.4)
    worse = replace(better, candidate_score=better.champion_score, champion_score=better.candidate_score)
    policy = {"champion": [{"metric": metric, "margin": 0.001}], "group_by": group_by}
    assert get_outcome(better, f"{metric} against the champion's", **policy) == PASSED
    assert get_outcome(worse, f"{metric} against the champion's", **policy) == FAILED


def test_a_model_is_neither_better_nor_worse_than_itself() -> None:
    rows = build_holdout()
    same = replace(rows, champion_score=rows.candidate_score)
    assert get_outcome(same, "auc against", champion=[{"metric": "auc", "margin": 0.005}]) == PASSED
    for gain in (0.0, 0.005):
        assert get_outcome(same, "auc against", champion=[{"metric": "auc", "relevant_gain": gain}]) == FAILED


def test_two_models_that_differ_by_chance_are_undecided() -> None:
    rows, noise = build_holdout(gain=0.3, seed=1), np.random.default_rng(9).normal(size=ROWS)
    mixed = 1 / (1 + np.exp(-(0.7 * rows.features.signal.to_numpy() + 0.3 * noise - 1.4)))
    checks = run_checks(replace(rows, candidate_score=mixed), champion=[{"metric": "auc"}])
    assert checks[1].outcome == UNDECIDED
    assert checks[1].rows_needed


def test_without_a_champion_nothing_is_compared() -> None:
    rows = replace(build_holdout(), champion_score=None)
    names = [check.name for check in run_checks(rows, champion=[{"metric": "auc"}], threshold=0.5)]
    assert names == ["rows of holdout"]


def test_the_candidate_may_not_be_significantly_less_often_right_at_a_threshold() -> None:
    better = build_holdout(gain=0.9)
    worse = replace(better, candidate_score=better.champion_score, champion_score=better.candidate_score)
    assert get_outcome(better, "share of rows predicted correctly at 0.3", threshold=0.3) == PASSED
    assert get_outcome(worse, "share of rows predicted correctly at 0.3", threshold=0.3) == FAILED


@pytest.mark.parametrize(("days", "expected"), [(31, PASSED), (0, PASSED), (-1, FAILED)])
def test_a_candidate_that_is_older_than_the_champion_fails(days: int, expected: str) -> None:
    assert (
        get_outcome(build_holdout(), "days that the window", JudgedData(build_holdout(), days_after_champion=days))
        == expected
    )


def build_broken_holdout(origin: str) -> Holdout:
    """Build a holdout where the candidate's score is noise for flights from this origin."""
    rows = build_holdout(gain=0.1)
    is_broken = (rows.features.origin == origin).to_numpy()
    noise = np.random.default_rng(5).random(ROWS)
    return replace(rows, candidate_score=np.where(is_broken, noise, rows.candidate_score))


def test_a_slice_that_falls_behind_fails() -> None:
    policy = {"slices": {"columns": ["origin"], "max_drop": 0.05, "min_rows": 500}}
    assert (
        get_outcome(build_holdout(gain=0.1), "AUC against the champion's in the slices of origin", **policy) == PASSED
    )
    check = run_checks(build_broken_holdout("JFK"), **policy)[1]
    assert check.outcome == FAILED
    assert "JFK" in check.reason


def test_small_slices_are_reported_and_not_judged() -> None:
    policy = {"slices": {"columns": ["origin"], "max_drop": 0.05, "min_rows": ROWS}}
    assert get_outcome(build_broken_holdout("JFK"), "AUC against the champion's in the slices", **policy) == REPORTED


def test_many_slices_that_differ_by_chance_pass() -> None:
    """The models differ only by noise in each of 200 slices. Without Holm's correction some slices would fail."""
    rows = build_holdout(40_000, gain=0.02)
    by_chance = replace(rows, features=rows.features.assign(cell=np.arange(40_000) % 200))
    policy = {"slices": {"columns": ["cell"], "max_drop": 0.0, "min_rows": 50}}
    judgement = judge(JudgedData(by_chance), build_policy(min_rows=1, **policy))
    assert judgement.checks[1].outcome == PASSED
    assert len(judgement.slices) == 200


def test_without_a_champion_slices_are_reported() -> None:
    rows = replace(build_holdout(), champion_score=None)
    judgement = judge(JudgedData(rows), build_policy(slices={"columns": ["origin"]}))
    assert judgement.checks[1].outcome == REPORTED
    assert sorted(judgement.slices["part"]) == ["EWR", "JFK", "LGA"]


def test_refuses_a_slice_column_that_is_missing() -> None:
    with pytest.raises(DataError, match="no column dest"):
        run_checks(build_holdout(), slices={"columns": ["dest"]})


def test_a_week_that_falls_behind_fails() -> None:
    rows = build_holdout()
    is_last_week = np.arange(ROWS) >= ROWS * 3 // 4
    broken = replace(
        rows, candidate_score=np.where(is_last_week, np.random.default_rng(5).random(ROWS), rows.candidate_score)
    )
    assert get_outcome(rows, "AUC of the holdout's weeks", stability={"max_drop": 0.1}) == PASSED
    assert get_outcome(broken, "AUC of the holdout's weeks", stability={"max_drop": 0.1}) == FAILED


def test_a_feature_that_leaks_the_label_fails() -> None:
    rows = build_holdout()
    leaking = replace(rows, features=rows.features.assign(arr_delay=rows.label + 0.1))
    assert (
        get_outcome(rows, "AUC of one feature alone", JudgedData(rows, features=("origin",)), max_solo_auc=0.75)
        == PASSED
    )
    evidence = JudgedData(leaking, features=("origin", "arr_delay"))
    assert get_outcome(leaking, "AUC of one feature alone (arr_delay)", evidence, max_solo_auc=0.75) == FAILED
    by_chance = replace(rows, features=rows.features.assign(arr_time=np.where(np.arange(ROWS) % 3, 1_200.0, np.nan)))
    evidence = JudgedData(by_chance, features=("origin", "arr_time"))
    assert get_outcome(by_chance, "AUC of one feature alone", evidence, max_solo_auc=0.75) == PASSED
    missing = replace(rows, features=rows.features.assign(arr_time=np.where(rows.label == 1, np.nan, 1_200.0)))
    evidence = JudgedData(missing, features=("origin", "arr_time"))
    assert get_outcome(missing, "AUC of one feature alone (arr_time)", evidence, max_solo_auc=0.75) == FAILED


def test_the_auc_of_a_single_feature_measures_what_it_says_about_the_label() -> None:
    random = np.random.default_rng(1)
    label = (random.random(4_000) < 0.3).astype(float)
    unique = pd.Series([f"N{n}" for n in range(4_000)])
    # Each row has a value of its own, so there is no rate to learn.
    assert compute_concordance_alone(label, unique) == pytest.approx(0.5, abs=0.02)
    assert compute_concordance_alone(label, pd.Series(-label)) == 1.0
    assert compute_concordance_alone(label, pd.Series(np.where(label == 1, "yes", "no"))) == 1.0
    assert compute_concordance_alone(label, pd.Series([np.nan] * 4_000)) == 0.5


KINDS = {
    "number": np.random.default_rng(2).normal(size=4_000),
    "category": np.random.default_rng(2).choice(["a", "b", "c"], 4_000),
    "boolean": np.random.default_rng(2).random(4_000) < 0.5,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_feature_that_is_missing_for_one_label_predicts_it(kind: str) -> None:
    """Such as an arrival time, which cancelled flights do not have: its values say nothing, that it is missing does."""
    random = np.random.default_rng(1)
    label = (random.random(4_000) < 0.3).astype(float)
    values = pd.Series(KINDS[kind])
    for missing_label in (0.0, 1.0):
        assert compute_concordance_alone(label, values.mask(label == missing_label)) == 1.0
    few = values.where(label == 1).mask(np.cumsum(label) > 90)
    assert compute_concordance_alone(label, few) > 0.5, "fewer than 100 values"
    # Negative controls: without missing values, and missing by chance.
    assert compute_concordance_alone(label, values) == pytest.approx(0.5, abs=0.03)
    assert compute_concordance_alone(label, values.mask(random.random(4_000) < 0.3)) == pytest.approx(0.5, abs=0.03)


def test_harmless_missing_values_do_not_hide_what_the_others_say() -> None:
    random = np.random.default_rng(1)
    label = (random.random(4_000) < 0.3).astype(float)
    for sign in (1, -1):
        values = pd.Series(sign * label).mask(random.random(4_000) < 0.6)
        assert compute_concordance_alone(label, values) == 1.0, "over the rows that have a value"
    delay = random.normal(size=4_000)
    assert compute_concordance_alone(delay, pd.Series(delay).mask(delay > 1.0)) == pytest.approx(1.0, abs=0.02)
    assert compute_concordance_alone(delay, pd.Series(-delay).mask(delay > 1.0)) == pytest.approx(1.0, abs=0.02)


def test_the_packaged_model_has_to_keep_its_bounds() -> None:
    measurements = PackageMeasurements(skew=2e-6, mb=5.0, single_ms=(1.0, 3.0), batch_ms=(10.0, 30.0))
    evidence = JudgedData(build_holdout(), package=measurements)
    tight = {"serving": {"max_skew": 1e-6, "max_mb": 1, "max_single_ms": 2, "max_batch_ms": 20}}
    wide = {"serving": {"max_skew": 1e-5, "max_mb": 10, "max_single_ms": 5, "max_batch_ms": 50}}
    assert [check.outcome for check in run_checks(evidence.holdout, evidence, **tight)][2:] == [FAILED] * 4
    assert [check.outcome for check in run_checks(evidence.holdout, evidence, **wide)][2:] == [PASSED] * 4
    assert [check.outcome for check in run_checks(evidence.holdout, evidence, serving={})][2:] == [FAILED] + [
        REPORTED
    ] * 3


@pytest.mark.parametrize(("cost", "expected"), [(0.5, PASSED), (2.0, FAILED)])
def test_a_training_that_costs_too_much_fails(cost: float, expected: str) -> None:
    assert (
        get_outcome(build_holdout(), "cost", JudgedData(build_holdout(), cost_usd=cost), max_cost_usd=1.0) == expected
    )


def test_refuses_a_holdout_that_cannot_be_judged() -> None:
    valid = build_holdout(1_000)
    with pytest.raises(DataError, match="have only one label"):
        replace(valid, label=np.ones(1_000))
    with pytest.raises(DataError, match="candidate's score is not a finite number for 1 rows"):
        replace(valid, candidate_score=np.where(np.arange(1_000) == 3, np.nan, valid.candidate_score))
    with pytest.raises(DataError, match=r"champion has scores of the shape \(999,\)"):
        replace(valid, champion_score=valid.candidate_score[1:])


def build_check(outcome: str, reason: str = "x") -> Check:
    return Check(name="c", value=1, bound=1, outcome=outcome, reason=reason)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], FAILED),
        ([REPORTED], FAILED),
        ([PASSED, REPORTED], PASSED),
        ([PASSED, UNDECIDED], UNDECIDED),
        ([PASSED, UNDECIDED, FAILED], FAILED),
    ],
)
def test_the_worst_outcome_of_the_checks_decides(outcomes: list[str], expected: str) -> None:
    assert combine_outcomes([build_check(outcome) for outcome in outcomes]) == expected


def test_the_summary_names_failed_checks_before_undecided_ones() -> None:
    checks = [build_check(PASSED, "fine"), build_check(UNDECIDED, "open"), build_check(FAILED, "bad")]
    assert summarize_checks(checks) == "bad; open"
    assert summarize_checks(checks[:1]) == "all 1 checks passed"
    assert summarize_checks([]) == "nothing was checked"
