"""Test a metric of a dataset's metrics.py for binary and multiclass models: interval, bound, champion, plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import fbeta_score, matthews_corrcoef

from pipelines.dataset import Task
from pipelines.errors import SpecError
from pipelines.evaluation.gates import FAILED, PASSED, REPORTED, Policy
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.verdict import Check
from pipelines.evaluation.own_metrics import make_metric
from pipelines.evaluation.report.own_metrics import draw_own_metrics, estimate_own_metrics
from pipelines.evaluation.report.report import write_report
from pipelines.evaluation.statistics.bootstrap import estimate_metric
from pipelines.pages.drawing import plt
from tests.tools.verdicts import build_verdict

DAYS, ROWS_PER_DAY = 30, 100
ROWS = DAYS * ROWS_PER_DAY
CLASSES = ("early", "late", "on time")
SHARES = np.array([0.6, 0.1, 0.3])
OTHERS: dict[str, Any] = {"baseline": [], "champion": [], **dict.fromkeys(("stability", "max_solo_auc"))}
Array = np.ndarray[Any, Any]


def compute_cost(label: Array, score: Array) -> float:
    """Compute the cost of a row: 5 for a missed delay, 1 for a false alarm."""
    alarm = score >= 0.3 if score.ndim == 1 else score.argmax(axis=1) == 1
    delay = label == 1
    return float((5.0 * (delay & ~alarm) + 1.0 * (alarm & ~delay)).mean())


def compute_f2(label: Array, score: Array, sample_weight: Array) -> float:
    return float(fbeta_score(label, score >= 0.3, beta=2, sample_weight=sample_weight))


def compute_mcc(label: Array, score: Array, sample_weight: Array) -> float:
    return float(matthews_corrcoef(label, score.argmax(axis=1), sample_weight=sample_weight))


def build_binary(candidate_noise: float = 0.5) -> Holdout:
    """Simulate the scores of a candidate with this noise in its log odds, and of a champion with the noise 3."""
    random = np.random.default_rng(4)
    log_odds = random.normal(-1.0, 1.5, ROWS)
    label = (random.random(ROWS) < 1 / (1 + np.exp(-log_odds))).astype(float)
    scores = [1 / (1 + np.exp(-log_odds - random.normal(0.0, noise, ROWS))) for noise in (candidate_noise, 3.0)]
    return Holdout(label, scores[0], scores[1], build_frame(), float(label.mean()), float(label.mean()))


def build_multiclass(candidate_strength: float = 3.0) -> Holdout:
    """Simulate probabilities of a candidate that knows the class with this strength, and of a champion with 0.5."""
    random = np.random.default_rng(4)
    label = random.choice(3, size=ROWS, p=SHARES)
    scores = []
    for strength in (candidate_strength, 0.5):
        logits = random.normal(size=(ROWS, 3)) + strength * np.eye(3)[label]
        scores.append(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    return Holdout(label, scores[0], scores[1], build_frame(), SHARES, SHARES, task="multiclass", classes=CLASSES)


def build_frame() -> pd.DataFrame:
    days = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(ROWS) // ROWS_PER_DAY, unit="D")
    return pd.DataFrame({"date": days, "airport": np.array(["EWR", "JFK"])[np.arange(ROWS) % 2]})


CASES: dict[Task, tuple[Holdout, Callable[..., float]]] = {
    "binary": (build_binary(), compute_f2),
    "multiclass": (build_multiclass(), compute_mcc),
}


def add_metrics(task: Task) -> tuple[Holdout, float, float]:
    """Return a holdout with the metrics `cost` (smaller is better) and `skill` (greater is), and their values."""
    holdout, compute_skill = CASES[task]
    metrics = {
        "cost": make_metric(compute_cost, greater_is_better=False, task=task),
        "skill": make_metric(compute_skill, greater_is_better=True, task=task),
    }
    cost = compute_cost(holdout.label, holdout.candidate_score)
    skill = compute_skill(holdout.label, holdout.candidate_score, sample_weight=np.ones(ROWS))
    return replace(holdout, own_metrics=metrics), cost, skill


def find_check(holdout: Holdout, name: str, **policy: Any) -> Check:
    checks = judge(JudgedData(holdout), Policy(**{"group_by": "date", **OTHERS, **policy})).checks
    (check,) = [check for check in checks if check.name == name]
    return check


@pytest.mark.parametrize("task", CASES)
def test_it_has_the_value_of_the_function_and_its_interval_decides_bounds(task: Task) -> None:
    holdout, cost, skill = add_metrics(task)
    for name, value, loose, strict in (
        ("cost", cost, {"at_most": cost * 1.5}, {"at_most": cost * 0.5}),
        ("skill", skill, {"at_least": skill - 0.2}, {"at_least": skill + 0.2}),
    ):
        for bound, expected in ((loose, PASSED), (strict, FAILED)):
            check = find_check(holdout, name, bounds={name: bound})
            assert check.outcome == expected, (name, bound)
            assert check.value == pytest.approx(value)
            assert check.low < check.value < check.high
        # A bound inside the interval does not pass: the whole interval decides, not the value.
        limit = {"at_most": (check.value + check.high) / 2} if name == "cost" else {"at_least": (check.low + value) / 2}
        assert find_check(holdout, name, bounds={name: limit}).outcome not in (PASSED, FAILED)


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize("name", ["cost", "skill"])
def test_its_direction_decides_the_comparison_with_the_champion(task: Task, name: str) -> None:
    holdout, _, _ = add_metrics(task)
    compare = {"bounds": {"log_loss": {"at_most": 9.0}}, "champion": [{"metric": name}]}
    assert find_check(holdout, f"{name} against the champion's", **compare).outcome == PASSED
    assert holdout.champion_score is not None
    turned = replace(holdout, candidate_score=holdout.champion_score, champion_score=holdout.candidate_score)
    assert find_check(turned, f"{name} against the champion's", **compare).outcome == FAILED


@pytest.mark.parametrize("task", CASES)
def test_fewer_days_give_a_wider_interval(task: Task) -> None:
    holdout, _, _ = add_metrics(task)
    days = np.arange(ROWS) // ROWS_PER_DAY
    widths = []
    for rows in (slice(None), slice(0, ROWS // 5)):
        options: dict[str, Any] = {"alpha": 0.05, "seed": 1, "draws": 100, "groups": days[rows]}
        metric = holdout.own_metrics["skill"]
        estimate = estimate_metric(holdout.label[rows], holdout.candidate_score[rows], metric, **options)
        widths.append(estimate.high - estimate.low)
    assert 0 < widths[0] < widths[1]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", pytest.param("multiclass", marks=pytest.mark.soak)])
def test_the_report_draws_it_by_week_and_slice(task: Task, tmp_path: Path) -> None:
    holdout, cost, _ = add_metrics(task)
    policy = Policy(group_by="date", slices={"columns": ["airport"], "max_drop": 0.5, "min_rows": 100})
    judgement = judge(JudgedData(holdout, ("airport",)), policy)
    (check,) = [check for check in judgement.checks if check.name == "cost"]
    assert (check.outcome, check.value) == (REPORTED, pytest.approx(cost)), "it has no bound"
    parts = estimate_own_metrics(holdout, policy)
    is_jfk = (holdout.features["airport"] == "JFK").to_numpy()
    expected = compute_cost(holdout.label[is_jfk], holdout.candidate_score[is_jfk])
    assert parts["cost"].slices["airport=JFK"].value == pytest.approx(expected)
    first_week = slice(0, 7 * ROWS_PER_DAY)
    expected = compute_cost(holdout.label[first_week], holdout.candidate_score[first_week])
    assert parts["cost"].weeks["2013-03-01"].value == pytest.approx(expected)
    figure = draw_own_metrics(parts)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["cost by week", "cost by slice", "skill by week", "skill by slice"]
    plt.close(figure)
    for number, rows in enumerate((holdout, replace(holdout, own_metrics={}))):
        page = write_report(tmp_path / str(number), build_verdict(), rows, judgement, policy, {"airport": 1.0}, {})
        has_metrics = number == 0
        assert page.with_name("metrics.png").exists() is has_metrics
        assert ("Metrics of the dataset" in page.read_text()) is has_metrics


def test_a_metric_that_the_dataset_does_not_have_is_refused() -> None:
    for task in CASES:
        holdout, _, _ = add_metrics(task)
        with pytest.raises(SpecError, match=rf"names the metric 'costs', .* {task} do not have.* cost, skill"):
            judge(JudgedData(holdout), Policy(bounds={"costs": {"at_most": 1.0}}))
