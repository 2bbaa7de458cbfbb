"""Test the gate of a regression on simulated days: what passes, what fails, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.evaluation.gates import FAILED, PASSED, REPORTED, UNDECIDED, Policy, combine_outcomes
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.own_metrics import make_metric
from pipelines.evaluation.report.own_metrics import estimate_own_metrics
from pipelines.evaluation.report.report import write_report
from tests.tools.verdicts import build_verdict

DAYS = 60
ROWS_PER_DAY = 120
ONLY_BOUNDS: dict[str, Any] = {"baseline": [], "champion": [], **dict.fromkeys(("stability", "max_solo_auc"))}
POLICY = Policy(group_by="date", slices={"columns": ["airport"], "max_drop": 0.05})


def build_holdout(noise: float = 8.0, days: int = DAYS, seed: int = 2) -> Holdout:
    """Simulate delays: the candidate's error is `noise`, the champion's is 8 minutes; bad days delay all flights."""
    random, rows = np.random.default_rng(seed), days * ROWS_PER_DAY
    day = np.repeat(np.arange(days), ROWS_PER_DAY)
    signal = random.normal(0.0, 10.0, size=rows)
    label = 12.0 + signal + random.normal(0.0, 2.0, size=days)[day] + random.normal(0.0, 6.0, size=rows)
    candidate_score, champion_score = (12.0 + signal + random.normal(0.0, error, rows) for error in (noise, 8.0))
    frame = pd.DataFrame(
        {
            "date": pd.Timestamp("2013-03-01") + pd.to_timedelta(day, unit="D"),
            "airport": random.choice(["EWR", "JFK", "LGA"], size=rows),
            "distance": random.normal(size=rows),
        }
    )
    return Holdout(label, candidate_score, champion_score, frame, 12.0, 12.5, task="regression")


def list_outcomes(holdout: Holdout, policy: Policy = POLICY) -> dict[str, str]:
    evidence = JudgedData(holdout, ("airport", "distance"))
    return {check.name: check.outcome for check in judge(evidence, policy).checks}


def test_a_good_model_passes_the_default_policy() -> None:
    outcomes = list_outcomes(build_holdout(noise=5.0))
    assert set(outcomes.values()) == {PASSED}, outcomes
    assert {
        "r2",
        "r2, leakage",
        "rmse against the label's mean in training",
        "rmse against the label's mean in the last week of training",
        "r2 against the champion's",
        "1 - MAE / MAE of the holdout against the champion's in the slices of airport",
        "1 - MAE / MAE of the holdout of the holdout's weeks",
        "concordance of one feature alone (airport)",
    } - outcomes.keys() <= {"concordance of one feature alone (airport)"}


def test_a_worse_model_fails_against_the_champion() -> None:
    assert list_outcomes(build_holdout(noise=11.0))["r2 against the champion's"] == FAILED


def test_a_model_without_signal_fails_against_the_mean() -> None:
    holdout = build_holdout()
    constant = replace(holdout, candidate_score=np.full(len(holdout.label), 14.0))
    outcomes = list_outcomes(constant)
    assert outcomes["rmse against the label's mean in training"] == FAILED
    assert outcomes["r2"] == FAILED


def test_a_small_holdout_is_undecided_and_says_how_many_rows_would_decide() -> None:
    holdout = build_holdout(noise=7.9, days=14)
    (check,) = [c for c in judge(JudgedData(holdout), POLICY).checks if c.name == "r2 against the champion's"]
    assert check.outcome == UNDECIDED
    assert check.rows_needed > len(holdout.label)


def test_a_feature_that_is_the_label_is_a_leak() -> None:
    holdout = build_holdout()
    for leak in (holdout.label, -holdout.label, holdout.label.round(-1).astype(str)):
        leaking = replace(holdout, features=holdout.features.assign(distance=leak))
        assert list_outcomes(leaking)["concordance of one feature alone (distance)"] == FAILED


def test_one_bad_week_and_one_bad_slice_fail() -> None:
    holdout = build_holdout(noise=5.0)
    error = np.random.default_rng(1).normal(0.0, 40.0, size=len(holdout.label))
    in_week = (holdout.features["date"] < "2013-03-08").to_numpy()
    in_slice = (holdout.features["airport"] == "JFK").to_numpy()
    for rows, name in ((in_week, "of the holdout's weeks"), (in_slice, "in the slices of airport")):
        bad = replace(holdout, candidate_score=holdout.candidate_score + np.where(rows, error, 0.0))
        (outcome,) = [outcome for check, outcome in list_outcomes(bad).items() if check.endswith(name)]
        assert outcome == FAILED, name


def test_slices_of_independent_rows_are_judged() -> None:
    policy = POLICY.model_copy(update={"group_by": "", "draws": 200})
    assert list_outcomes(build_holdout(noise=5.0), policy)["r2 against the champion's"] == PASSED


@pytest.mark.parametrize("weighted", [False, True])
def test_a_metric_of_the_user_has_an_interval_and_bounds(weighted: bool) -> None:
    def compute_share(label: np.ndarray, score: np.ndarray) -> float:
        return float((np.abs(score - label) <= 10).mean())

    def compute_weighted_share(label: np.ndarray, score: np.ndarray, sample_weight: np.ndarray) -> float:
        return float(np.average(np.abs(score - label) <= 10, weights=sample_weight))

    metric = make_metric(
        compute_weighted_share if weighted else compute_share, greater_is_better=True, task="regression"
    )
    holdout = replace(build_holdout(noise=5.0), own_metrics={"within_10": metric})
    for bound, expected in ((0.5, PASSED), (0.99, FAILED)):
        policy = Policy(group_by="date", bounds={"within_10": {"at_least": bound}}, **ONLY_BOUNDS)
        (check,) = [c for c in judge(JudgedData(holdout), policy).checks if c.name == "within_10"]
        assert check.outcome == expected
        assert check.low < check.value < check.high
    policy = Policy(group_by="date", **{**ONLY_BOUNDS, "champion": [{"metric": "within_10"}]})
    assert list_outcomes(holdout, policy)["within_10 against the champion's"] == PASSED
    drawn_policy = Policy(draws=100, bounds={"within_10": {"at_least": 0.5}}, **ONLY_BOUNDS)
    assert list_outcomes(holdout, drawn_policy)["within_10"] == PASSED


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"bounds": {"auc": {"at_least": 0.6}}}, "names the metric 'auc', which models of the task regression do not"),
        ({"baseline": ["log_loss"]}, "names the metric 'log_loss'"),
        ({"champion": [{"metric": "bias"}]}, "compares models by bias, for which neither higher"),
        ({"threshold": 0.5}, "has a threshold, but models of the task regression have none"),
    ],
)
def test_refuses_what_a_regression_does_not_have(policy: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        judge(JudgedData(build_holdout()), Policy(**policy))


def test_refuses_labels_and_scores_that_are_not_finite() -> None:
    holdout = build_holdout()
    broken = np.where(np.arange(len(holdout.label)) == 3, np.inf, holdout.label)
    for field in ("label", "candidate_score", "champion_score"):
        with pytest.raises(DataError, match=r"finite|infinite"):
            replace(holdout, **{field: broken})


@pytest.mark.parametrize("has_champion", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_the_report_has_the_pictures_of_a_regression(tmp_path: Path, has_champion: bool) -> None:
    rows = build_holdout(noise=5.0)
    if not has_champion:
        rows = replace(rows, champion_score=None)
    judgement = judge(JudgedData(rows, ("airport",)), POLICY)
    outcome = combine_outcomes(judgement.checks)
    verdict = build_verdict(outcome=outcome, checks=judgement.checks)
    importance = {"distance": 0.7, "airport": 0.3}
    page = write_report(tmp_path / "report", verdict, rows, judgement, POLICY, importance, {})
    assert {path.name for path in page.parent.iterdir()} == {
        "report.html",
        "predictions.png",
        "reliability.png",
        "holdout_parts.png",
    }
    assert page.read_text().count("data:image/png;base64,") == 3, "the page shows each picture"


def test_metrics_of_the_user_are_reported_and_drawn_by_week_and_slice(tmp_path: Path) -> None:
    def compute_share(label: np.ndarray, score: np.ndarray, sample_weight: np.ndarray) -> float:
        return float(np.average(np.abs(score - label) <= 10, weights=sample_weight))

    def fail_on_parts(label: np.ndarray, score: np.ndarray, sample_weight: np.ndarray) -> float:
        if len(label) < 5_000:
            raise ValueError("too few rows")
        return compute_share(label, score, sample_weight)

    metrics = {
        name: make_metric(function, greater_is_better=True, task="regression")
        for name, function in {"within_10": compute_share, "whole": fail_on_parts}.items()
    }
    holdout = replace(build_holdout(noise=5.0), own_metrics=metrics)
    policy = POLICY.model_copy(update={"min_rows": 1_000})
    judgement = judge(JudgedData(holdout, ("airport",)), policy)
    (check,) = [check for check in judgement.checks if check.name == "within_10"]
    assert check.outcome == REPORTED and check.low < check.value < check.high, "it has no bound"
    parts = estimate_own_metrics(holdout, policy)
    assert list(parts["within_10"].slices) == ["airport=EWR", "airport=JFK", "airport=LGA"]
    assert len(parts["within_10"].weeks) == 9
    is_jfk = (holdout.features["airport"] == "JFK").to_numpy()
    errors = np.abs(holdout.candidate_score - holdout.label)
    jfk = parts["within_10"].slices["airport=JFK"]
    assert jfk.value == pytest.approx((errors[is_jfk] <= 10).mean())
    assert jfk.low < jfk.value < jfk.high
    assert (parts["whole"].weeks, parts["whole"].slices) == ({}, {}), "the function refuses the parts"
    page = write_report(tmp_path / "report", build_verdict(), holdout, judgement, policy, {"airport": 1.0}, {})
    assert (tmp_path / "report/metrics.png").exists()
    assert "Metrics of the dataset" in page.read_text()


def test_refuses_an_unknown_task() -> None:
    with pytest.raises(SpecError, match=r"delays has the task 'ranking'\. Use one of: binary, multiclass, regression"):
        Dataset(name="delays", key=("date",), label="delay", task="ranking")
