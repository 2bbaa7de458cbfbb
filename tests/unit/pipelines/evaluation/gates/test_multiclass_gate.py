"""Test the gate of a multiclass model on simulated days: what passes, what fails, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.gates import FAILED, PASSED, UNDECIDED, Policy
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.task_policy import complete_policy
from pipelines.evaluation.report.report import write_report
from pipelines.evaluation.statistics.weighted import list_metrics
from tests.tools.verdicts import build_verdict

DAYS, ROWS_PER_DAY = 60, 120
CLASSES = ("early", "late", "on time")
SHARES = np.array([0.6, 0.1, 0.3])
POLICY = Policy(group_by="date", slices={"columns": ["airport"], "max_drop": 0.1})


def build_holdout(strength: float = 1.5, champion_strength: float = 1.0, seed: int = 2) -> Holdout:
    """Simulate probabilities of both models that know more of the class, the greater their strength."""
    random, rows = np.random.default_rng(seed), DAYS * ROWS_PER_DAY
    label = random.choice(3, size=rows, p=SHARES)
    scores = []
    for each_strength in (strength, champion_strength):
        logits = random.normal(size=(rows, 3)) + each_strength * np.eye(3)[label] + np.log(SHARES)
        scores.append(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    frame = pd.DataFrame(
        {
            "date": pd.Timestamp("2013-03-01") + pd.to_timedelta(np.repeat(np.arange(DAYS), ROWS_PER_DAY), unit="D"),
            "airport": random.choice(["EWR", "JFK", "LGA"], size=rows),
            "leak": np.where(label == 1, 1.0, random.normal(size=rows)),
        }
    )
    return Holdout(label, scores[0], scores[1], frame, SHARES, SHARES, task="multiclass", classes=CLASSES)


def list_outcomes(
    holdout: Holdout, policy: Policy = POLICY, features: tuple[str, ...] = ("airport",)
) -> dict[str, str]:
    return {check.name: check.outcome for check in judge(JudgedData(holdout, features), policy).checks}


def test_a_good_model_passes_the_default_policy() -> None:
    outcomes = list_outcomes(build_holdout())
    assert set(outcomes.values()) == {PASSED}, outcomes
    assert {
        "macro_auc",
        "macro_auc, leakage",
        "log_loss against the label's class shares in training",
        "macro_auc against the champion's",
        "accuracy against the champion's in the slices of airport",
        "accuracy of the holdout's weeks",
    } <= outcomes.keys()


def test_a_worse_model_fails_against_the_champion() -> None:
    outcomes = list_outcomes(build_holdout(strength=0.5))
    assert outcomes["macro_auc against the champion's"] == FAILED


def test_a_model_without_information_fails_against_the_class_shares() -> None:
    holdout = build_holdout()
    noise = np.random.default_rng(1).dirichlet(np.ones(3), size=len(holdout.label))
    outcomes = list_outcomes(replace(holdout, candidate_score=noise))
    assert outcomes["macro_auc"] == FAILED
    assert outcomes["log_loss against the label's class shares in training"] == FAILED


@pytest.mark.parametrize(("bound", "outcome"), [(0.05, PASSED), (0.99, FAILED)])
def test_the_recall_of_a_class_has_a_bound(bound: float, outcome: str) -> None:
    policy = Policy(group_by="date", bounds={"recall/late": {"at_least": bound}})
    assert list_outcomes(build_holdout(), policy)["recall/late"] == outcome


@pytest.mark.parametrize(("bound", "outcome"), [(0.75, PASSED), (0.99, FAILED)])
def test_the_auc_of_a_class_has_a_bound(bound: float, outcome: str) -> None:
    policy = Policy(group_by="date", bounds={"auc/late": {"at_least": bound}})
    assert list_outcomes(build_holdout(), policy)["auc/late"] == outcome


def keep_rows_of_a_class(count: int) -> Holdout:
    """Return a holdout with this number of rows of the class late."""
    holdout = build_holdout()
    assert holdout.champion_score is not None
    rows = np.flatnonzero((holdout.label != 1) | (np.cumsum(holdout.label == 1) <= count))
    return replace(
        holdout,
        label=holdout.label[rows],
        candidate_score=holdout.candidate_score[rows],
        champion_score=holdout.champion_score[rows],
        features=holdout.features.iloc[rows],
    )


@pytest.mark.parametrize("count", [0, 1, 29])
def test_a_class_with_few_rows_decides_nothing(count: int) -> None:
    """The number of rows matters to a metric of the class and to a mean over classes, not to one of all rows."""
    holdout = keep_rows_of_a_class(count)
    for name in ("auc/late", "recall/late", "macro_auc", "balanced_accuracy", "macro_f1"):
        policy = Policy(group_by="date", bounds={name: {"at_least": 0.0}}, champion=[], max_solo_auc=None)
        checks = judge(JudgedData(holdout), policy).checks
        assert checks[0].outcome == UNDECIDED and f"the class late has {count} rows" in checks[0].reason
    for name in ("accuracy", "log_loss", "ece", "auc/early", "recall/on time"):
        policy = Policy(group_by="date", bounds={name: {"at_least": 0.0}}, champion=[], max_solo_auc=None)
        assert list_outcomes(holdout, policy)["rows of holdout"] == PASSED, name
    champion = Policy(group_by="date", bounds={"accuracy": {"at_least": 0.0}}, champion=[{"metric": "auc/late"}])
    assert list_outcomes(holdout, champion)["rows of holdout"] == UNDECIDED


def test_a_class_with_enough_rows_is_judged() -> None:
    policy = Policy(group_by="date", bounds={"auc/late": {"at_least": 0.6}}, champion=[], max_solo_auc=None)
    outcomes = list_outcomes(keep_rows_of_a_class(30), policy)
    assert (outcomes["rows of holdout"], outcomes["auc/late"]) == (PASSED, PASSED)


def test_a_class_without_rows_has_no_auc_and_no_recall() -> None:
    bounds = {"auc/late": {"at_least": 0.0}, "recall/late": {"at_most": 1.0}}
    policy = Policy(group_by="date", bounds=bounds, champion=[{"metric": "auc/late", "margin": 1.0}])
    outcomes = list_outcomes(keep_rows_of_a_class(0), policy)
    names = ("auc/late", "recall/late, leakage", "auc/late against the champion's")
    assert PASSED not in {outcomes[name] for name in names}, outcomes


def test_the_calibration_error_has_the_method_without_bias() -> None:
    policy = Policy(group_by="date", bounds={"ece": {"at_most": 0.5}}, stability=None, max_solo_auc=None)
    assert list_outcomes(build_holdout(), policy)["ece"] == PASSED


def test_a_feature_that_separates_one_class_from_the_others_is_a_leak() -> None:
    holdout = build_holdout()
    leak = holdout.features.assign(leak=np.where(holdout.label == 1, 5.0, holdout.features["leak"]))
    outcomes = list_outcomes(replace(holdout, features=leak), features=("airport", "leak"))
    assert outcomes["AUC of one feature alone (leak)"] == FAILED


def test_few_days_are_undecided() -> None:
    holdout = build_holdout()
    rows = slice(0, 5 * ROWS_PER_DAY)
    assert holdout.champion_score is not None
    few = replace(
        holdout,
        label=holdout.label[rows],
        candidate_score=holdout.candidate_score[rows],
        champion_score=holdout.champion_score[rows],
        features=holdout.features.iloc[rows],
    )
    assert list_outcomes(few)["macro_auc"] == UNDECIDED


def test_a_metric_of_another_task_and_an_unknown_class_are_refused() -> None:
    for name in ("auc", "rmse", "recall/never"):
        policy = Policy(bounds={name: {"at_least": 0.1}})
        with pytest.raises(SpecError, match=r"which models of the task multiclass do not have\. They have log_loss"):
            list_outcomes(build_holdout(), policy)
    before_training = Policy(bounds={"recall/never": {"at_least": 0.1}})
    metrics = list_metrics("multiclass")
    assert complete_policy(before_training, "multiclass", metrics, are_classes_known=False).bounds
    with pytest.raises(SpecError, match="which models of the task binary do not have"):
        complete_policy(before_training, "binary", list_metrics("binary"), are_classes_known=False)


def test_scores_of_another_shape_are_refused() -> None:
    holdout = build_holdout()
    with pytest.raises(DataError, match="the candidate has"):
        replace(holdout, candidate_score=holdout.candidate_score[:, :2])


def test_the_report_has_the_pictures_of_a_multiclass_model(tmp_path: Path) -> None:
    holdout = build_holdout()
    judgement = judge(JudgedData(holdout, ("airport",)), POLICY)
    verdict = build_verdict(checks=judgement.checks)
    page = write_report(tmp_path / "report", verdict, holdout, judgement, POLICY, {"airport": 1.0}, {})
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "report.html", "classes.png", "class_reliability.png", "reliability.png", "holdout_parts.png",
    }  # fmt: skip
    assert page.read_text().count("data:image/png;base64,") == 4, "the page shows each picture"
