"""Each check of a policy, on a holdout made for it: what keeps it, and what it must refuse or leave open."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pipelines.errors import DataError
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
from pipelines.evaluation.gates.judging import Evidence, judge
from pipelines.evaluation.gates.leakage import compute_single_auc
from pipelines.evaluation.gates.policy import Metric
from pipelines.evaluation.gates.serving import PackageMeasurements
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.weighted import METRICS

ROWS = 6_000
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("slices", "stability", "max_solo_auc", "serving")),
    **{"baseline": [], "champion": []},
}
"""A policy's parts, turned off."""


def holdout(rows: int = ROWS, seed: int = 1, gain: float = 0.0) -> Holdout:
    """Scores that are the truth but for noise; the champion is the candidate with its signal less `gain`."""
    random = np.random.default_rng(seed)
    signal = random.normal(size=rows)
    chance = 1 / (1 + np.exp(-(signal - 1.4)))
    label = (random.random(rows) < chance).astype(float)
    noisy = 1 / (1 + np.exp(-((1 - gain) * signal + gain * random.normal(size=rows) - 1.4)))
    days = pd.to_datetime("2013-03-01") + pd.to_timedelta(np.arange(rows) * 28 // rows, unit="D")
    frame = pd.DataFrame({"date": days, "origin": random.choice(["EWR", "JFK", "LGA"], rows), "signal": signal})
    return Holdout(label, chance, noisy, frame, base_rate=float(label.mean()), last_week_rate=float(label.mean()))


def only(**policy: Any) -> Policy:
    """A policy of these parts; one without any bounds is made past its check."""
    made = Policy(**{**NOTHING, **policy})
    return made if "bounds" in policy else made.model_copy(update={"bounds": {}})


def judged(rows: Holdout, more: Evidence | None = None, **policy: Any) -> list[Check]:
    told = replace(more, holdout=rows) if more else Evidence(rows)
    return judge(told, only(**{"min_rows": 0, "draws": 200, **policy})).checks


def outcome(rows: Holdout, name: str, more: Evidence | None = None, **policy: Any) -> str:
    found = [one for one in judged(rows, more, **policy) if one.check.startswith(name)]
    assert len(found) == 1, [one.check for one in found]
    return found[0].outcome


def test_the_metrics_of_the_policy_equal_those_of_the_statistics() -> None:
    assert set(get_args(Metric)) == set(METRICS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bounds": {"acu": {"at_least": 0.5}}},
        {"bounds": {"auc": {"atleast": 0.5}}},
        {"bounds": {}},
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
        {"champion": [{"metric": "auc", "test": "delong"}], "draw_by": "date"},
    ],
)
def test_refuses_a_policy_that_would_check_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy(**wrong)


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
@pytest.mark.parametrize("draw_by", ["", "date"])
def test_the_whole_interval_has_to_keep_a_bound(
    metric: str, bound: dict[str, float], expected: str, draw_by: str
) -> None:
    assert outcome(holdout(), metric, bounds={metric: bound}, draw_by=draw_by) == expected


def test_a_bound_within_the_interval_is_undecided_and_gives_the_rows_needed() -> None:
    told = Estimate.normal(0.70, 0.01, 2_000, 0.05, 0.0, 1.0)
    check = check_estimate("auc", told, 0.69, Policy())
    assert (check.outcome, check.bound) == (UNDECIDED, 0.69)
    assert check.rows_needed
    # With those rows the same value passes: its interval is narrower.
    more = Estimate.normal(0.70, 0.01 * (2_000 / check.rows_needed) ** 0.5, check.rows_needed, 0.05, 0.0, 1.0)
    assert check_estimate("auc", more, 0.69, Policy()).outcome == PASSED
    assert f"{check.rows_needed:,} rows" in check.reason


def test_no_number_of_rows_decides_a_value_on_its_bound() -> None:
    check = check_estimate("auc", Estimate.normal(0.70, 0.01, 2_000, 0.05, 0.0, 1.0), 0.70, Policy())
    assert (check.outcome, check.rows_needed) == (UNDECIDED, None)
    assert "no number of rows" in check.reason


def test_fails_once_the_interval_excludes_the_gain_that_matters() -> None:
    told = Estimate.normal(0.0, 0.001, 2_000, 0.05, -1.0, 1.0)
    assert check_estimate("gain", told, 0.0, Policy(), matters=0.0).outcome == UNDECIDED
    assert check_estimate("gain", told, 0.0, Policy(), matters=0.01).outcome == FAILED


def test_too_few_rows_are_undecided() -> None:
    check = check_row_count("rows of holdout", 4_999, 5_000)
    assert (check.outcome, check.rows_needed) == (UNDECIDED, 5_000)
    assert check_row_count("rows of holdout", 5_000, 5_000).outcome == PASSED


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_value_that_is_not_finite_never_passes(value: float | None) -> None:
    for check in (
        check_value("size", value, at_most=1.0),
        check_value("size", 0.5, at_most=value),
        check_value("d", value, at_least=0),
    ):
        assert check.outcome == FAILED
        assert Check.model_validate_json(check.model_dump_json()) == check  # JSON that can be read again


def test_an_exact_value_may_equal_its_bound() -> None:
    assert check_value("size", 1.0, at_most=1.0).outcome == PASSED
    assert check_value("size", 1.0, at_least=1.0).outcome == PASSED
    assert check_value("size", 1.1, at_most=1.0).outcome == FAILED


def test_the_candidate_has_to_beat_trivial_models() -> None:
    good = holdout()
    useless = replace(good, candidate_score=np.full(ROWS, good.base_rate + 0.05))
    for name in ("log_loss against the training's", "log_loss against its last week's"):
        assert outcome(good, name, baseline=["log_loss"]) == PASSED
        assert outcome(useless, name, baseline=["log_loss"]) == FAILED


@pytest.mark.parametrize("metric", ["auc", "log_loss", "brier"])
@pytest.mark.parametrize("draw_by", ["", "date"])
def test_the_candidate_may_not_be_worse_than_the_champion(metric: str, draw_by: str) -> None:
    better = holdout(gain=0.4)
    worse = replace(better, candidate_score=better.champion_score, champion_score=better.candidate_score)
    asked = {"champion": [{"metric": metric, "margin": 0.001}], "draw_by": draw_by}
    assert outcome(better, f"{metric} against the champion's", **asked) == PASSED
    assert outcome(worse, f"{metric} against the champion's", **asked) == FAILED


def test_a_model_is_neither_better_nor_worse_than_itself() -> None:
    rows = holdout()
    same = replace(rows, champion_score=rows.candidate_score)
    assert outcome(same, "auc against", champion=[{"metric": "auc", "margin": 0.005}]) == PASSED
    for matters in (0.0, 0.005):
        assert outcome(same, "auc against", champion=[{"metric": "auc", "matters": matters}]) == FAILED


def test_two_models_that_differ_by_chance_are_undecided() -> None:
    one, other = holdout(gain=0.3, seed=1), np.random.default_rng(9).normal(size=ROWS)
    mixed = 1 / (1 + np.exp(-(0.7 * one.features.signal.to_numpy() + 0.3 * other - 1.4)))
    told = judged(replace(one, candidate_score=mixed), champion=[{"metric": "auc"}])
    assert told[1].outcome == UNDECIDED
    assert told[1].rows_needed


def test_without_a_champion_nothing_is_compared() -> None:
    rows = replace(holdout(), champion_score=None)
    names = [one.check for one in judged(rows, champion=[{"metric": "auc"}], threshold=0.5)]
    assert names == ["rows of holdout"]


def test_the_candidate_may_not_be_significantly_less_often_right_at_a_threshold() -> None:
    better = holdout(gain=0.9)
    worse = replace(better, candidate_score=better.champion_score, champion_score=better.candidate_score)
    assert outcome(better, "right at 0.3", threshold=0.3) == PASSED
    assert outcome(worse, "right at 0.3", threshold=0.3) == FAILED


@pytest.mark.parametrize(("days", "expected"), [(31, PASSED), (0, PASSED), (-1, FAILED)])
def test_a_candidate_that_is_older_than_the_champion_fails(days: int, expected: str) -> None:
    assert outcome(holdout(), "days that the window", Evidence(holdout(), days_newer=days)) == expected


def broken_in(origin: str) -> Holdout:
    rows = holdout(gain=0.1)
    there = (rows.features.origin == origin).to_numpy()
    noise = np.random.default_rng(5).random(ROWS)
    return replace(rows, candidate_score=np.where(there, noise, rows.candidate_score))


def test_a_slice_that_falls_behind_fails() -> None:
    asked = {"slices": {"columns": ["origin"], "max_drop": 0.05, "min_rows": 500}}
    assert outcome(holdout(gain=0.1), "AUC against the champion's in the slices of origin", **asked) == PASSED
    broken = judged(broken_in("JFK"), **asked)[1]
    assert broken.outcome == FAILED
    assert "JFK" in broken.reason


def test_small_slices_are_reported_and_not_judged() -> None:
    asked = {"slices": {"columns": ["origin"], "max_drop": 0.05, "min_rows": ROWS}}
    assert outcome(broken_in("JFK"), "AUC against the champion's in the slices", **asked) == REPORTED


def test_many_slices_that_differ_by_chance_pass() -> None:
    """Each of 200 slices of one model against itself but for noise: without Holm some would be refused."""
    rows = holdout(40_000, gain=0.02)
    by_chance = replace(rows, features=rows.features.assign(cell=np.arange(40_000) % 200))
    asked = {"slices": {"columns": ["cell"], "max_drop": 0.0, "min_rows": 50}}
    told = judge(Evidence(by_chance), only(min_rows=0, **asked))
    assert told.checks[1].outcome == PASSED
    assert len(told.slices) == 200


def test_without_a_champion_slices_are_reported() -> None:
    rows = replace(holdout(), champion_score=None)
    told = judge(Evidence(rows), only(slices={"columns": ["origin"]}))
    assert told.checks[1].outcome == REPORTED
    assert sorted(told.slices["slice"]) == ["EWR", "JFK", "LGA"]


def test_refuses_a_slice_column_that_is_missing() -> None:
    with pytest.raises(DataError, match="no column dest"):
        judged(holdout(), slices={"columns": ["dest"]})


def test_a_week_that_falls_behind_fails() -> None:
    rows = holdout()
    late = np.arange(ROWS) >= ROWS * 3 // 4
    broken = replace(rows, candidate_score=np.where(late, np.random.default_rng(5).random(ROWS), rows.candidate_score))
    assert outcome(rows, "AUC of the holdout's weeks", stability={"max_drop": 0.1}) == PASSED
    assert outcome(broken, "AUC of the holdout's weeks", stability={"max_drop": 0.1}) == FAILED


def test_a_feature_that_leaks_the_label_fails() -> None:
    rows = holdout()
    leaky = replace(rows, features=rows.features.assign(arr_delay=rows.label + 0.1))
    assert outcome(rows, "AUC of one feature alone", Evidence(rows, features=("origin",)), max_solo_auc=0.75) == PASSED
    told = Evidence(leaky, features=("origin", "arr_delay"))
    assert outcome(leaky, "AUC of one feature alone (arr_delay)", told, max_solo_auc=0.75) == FAILED


def test_auc_of_a_single_feature() -> None:
    random = np.random.default_rng(1)
    label = (random.random(4_000) < 0.3).astype(float)
    unique = pd.Series([f"N{n}" for n in range(4_000)])
    assert compute_single_auc(label, unique) == pytest.approx(
        0.5, abs=0.02
    )  # a tail number each: no rate of its own to learn
    assert compute_single_auc(label, pd.Series(-label)) == 1.0
    assert compute_single_auc(label, pd.Series(np.where(label == 1, "yes", "no"))) == 1.0
    assert compute_single_auc(label, pd.Series([np.nan] * 4_000)) == 0.5


def test_the_packaged_model_has_to_keep_its_bounds() -> None:
    measured = PackageMeasurements(skew=2e-6, mb=5.0, single_ms=(1.0, 3.0), batch_ms=(10.0, 30.0))
    told = Evidence(holdout(), package=measured)
    tight = {"serving": {"max_skew": 1e-6, "max_mb": 1, "max_single_ms": 2, "max_batch_ms": 20}}
    wide = {"serving": {"max_skew": 1e-5, "max_mb": 10, "max_single_ms": 5, "max_batch_ms": 50}}
    assert [one.outcome for one in judged(told.holdout, told, **tight)][1:] == [FAILED] * 4
    assert [one.outcome for one in judged(told.holdout, told, **wide)][1:] == [PASSED] * 4
    assert [one.outcome for one in judged(told.holdout, told, serving={})][1:] == [FAILED] + [REPORTED] * 3


@pytest.mark.parametrize(("cost", "expected"), [(0.5, PASSED), (2.0, FAILED)])
def test_a_training_that_costs_too_much_fails(cost: float, expected: str) -> None:
    assert outcome(holdout(), "cost", Evidence(holdout(), cost_usd=cost), max_cost_usd=1.0) == expected


def test_refuses_a_holdout_that_cannot_be_judged() -> None:
    good = holdout(1_000)
    with pytest.raises(DataError, match="lack one of the labels"):
        replace(good, label=np.ones(1_000))
    with pytest.raises(DataError, match="candidate's score is not a finite number for 1 rows"):
        replace(good, candidate_score=np.where(np.arange(1_000) == 3, np.nan, good.candidate_score))
    with pytest.raises(DataError, match="champion has 999 scores"):
        replace(good, champion_score=good.candidate_score[1:])


def row(outcome: str, reason: str = "x") -> Check:
    return Check(check="c", value=1, bound=1, outcome=outcome, reason=reason)  # type: ignore[arg-type]


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
def test_combines_outcomes(outcomes: list[str], expected: str) -> None:
    assert combine_outcomes([row(one) for one in outcomes]) == expected


def test_summarizes_failed_checks_before_undecided_ones() -> None:
    told = [row(PASSED, "fine"), row(UNDECIDED, "open"), row(FAILED, "bad")]
    assert summarize_checks(told) == "bad; open"
    assert summarize_checks(told[:1]) == "all 1 checks passed"
    assert summarize_checks([]) == "nothing was checked"
