"""Test the metrics, the gate and the report of a regression that predicts quantiles."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from pipelines.classes import split_quantiles
from pipelines.errors import DataError, SpecError
from pipelines.evaluation.gates import FAILED, PASSED, REPORTED
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.gates.policy import Bound, Comparison, Policy
from pipelines.evaluation.gates.task_policy import complete_policy
from pipelines.evaluation.report.report import write_report
from pipelines.evaluation.statistics.weighted import compute_metric, list_metrics
from tests.tools.verdicts import build_verdict

NAMES = ("0.1", "0.5", "0.9")
METRICS = list_metrics("regression", quantiles=NAMES)
POLICY = Policy(
    group_by="date",
    min_rows=1_000,
    bounds={"coverage/0.1-0.9": Bound(at_least=0.75, at_most=0.85), "pinball/0.9": Bound(at_most=3.0)},
    baseline=["mae"],
    champion=[Comparison(metric="pinball", margin=0.01)],
    serving=None,
)


def build_holdout(width: float = 1.0, champion_width: float = 1.0, seed: int = 1) -> Holdout:
    """Build a holdout whose quantiles are those of the labels where `width` is 1, and too narrow below."""
    random, rows = np.random.default_rng(seed), 28 * 300
    day = np.repeat(np.arange(28), 300)
    signal = random.normal(10.0, 5.0, rows)
    label = signal + random.normal(0.0, 0.4, 28)[day] + random.normal(0.0, 5.0, rows)

    def predict(scale: float) -> dict[str, np.ndarray]:
        return {name: signal + scale * 5.0 * float(norm.ppf(float(name))) for name in NAMES}

    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(day, unit="D")
    frame = pd.DataFrame({"date": dates, "x": random.normal(size=rows)})
    return Holdout(
        label, signal, signal, frame, 10.0, 10.0, task="regression",
        candidate_quantiles=predict(width), champion_quantiles=predict(champion_width),
    )  # fmt: skip


def list_outcomes(holdout: Holdout, policy: Policy = POLICY) -> dict[str, str]:
    return {check.name: check.outcome for check in judge(JudgedData(holdout), policy).checks}


def test_the_metrics_equal_those_of_scikit_learn_and_of_their_definition() -> None:
    assert list(METRICS)[5:] == ["pinball", "pinball/0.1", "pinball/0.5", "pinball/0.9", "coverage/0.1-0.9"]
    holdout = build_holdout(0.8)
    columns = np.column_stack(list(holdout.candidate_quantiles.values()))
    losses = []
    for at, name in enumerate(NAMES):
        expected = mean_pinball_loss(holdout.label, columns[:, at], alpha=float(name))
        assert compute_metric(holdout.label, columns[:, [at]], METRICS[f"pinball/{name}"]) == pytest.approx(expected)
        losses.append(expected)
    assert compute_metric(holdout.label, columns, METRICS["pinball"]) == pytest.approx(np.mean(losses))
    share = ((columns[:, 0] <= holdout.label) & (holdout.label <= columns[:, 2])).mean()
    assert compute_metric(holdout.label, columns[:, [0, 2]], METRICS["coverage/0.1-0.9"]) == pytest.approx(share)
    assert 0.6 < share < 0.75


def test_quantiles_like_those_of_the_labels_pass() -> None:
    assert set(list_outcomes(build_holdout()).values()) <= {PASSED, REPORTED}
    (check, *_) = [c for c in judge(JudgedData(build_holdout()), POLICY).checks if c.name == "coverage/0.1-0.9"]
    assert check.low < check.value < check.high


def test_intervals_that_are_too_narrow_fail_by_coverage_and_against_the_champion() -> None:
    """Negative control of the test above."""
    holdout = build_holdout(width=0.5)
    outcomes = list_outcomes(holdout)
    checks = judge(JudgedData(holdout), POLICY).checks
    assert [check.outcome for check in checks if check.name == "coverage/0.1-0.9"] == [FAILED, PASSED]
    assert outcomes["pinball against the champion's"] == FAILED
    assert outcomes["mae against the label's mean in training"] == PASSED, "the median is as good as before"


def test_a_champion_without_quantiles_is_compared_by_its_score_only() -> None:
    holdout = replace(build_holdout(), champion_quantiles={})
    with pytest.raises(DataError, match=r"the champion predicts no quantile 0\.1, which a metric of the gate's policy"):
        judge(JudgedData(holdout), POLICY)
    by_score = POLICY.model_copy(update={"champion": [Comparison(metric="mae", margin=0.05)]})
    assert list_outcomes(holdout, by_score)["mae against the champion's"] == PASSED


def test_metrics_of_quantiles_are_allowed_before_the_training_and_then_have_to_exist() -> None:
    policy = POLICY.model_copy(update={"bounds": {"pinball/0.95": Bound(at_most=3.0)}})
    assert complete_policy(policy, "regression", list_metrics("regression"), are_classes_known=False).bounds
    with pytest.raises(SpecError, match=r"metric 'pinball/0.95'.*They have .*pinball/0.9, coverage/0.1-0.9\.$"):
        complete_policy(policy, "regression", METRICS)
    for task in ("binary", "multiclass"):
        with pytest.raises(SpecError, match="names the metric"):
            complete_policy(policy, task, list_metrics(task), are_classes_known=False)
    baseline = POLICY.model_copy(update={"baseline": ["pinball"]})
    with pytest.raises(SpecError, match="pinball in `baseline`: no metric of a class or quantile may be there"):
        complete_policy(baseline, "regression", METRICS)
    direction = POLICY.model_copy(update={"champion": [Comparison(metric="coverage/0.1-0.9")]})
    with pytest.raises(SpecError, match="for which neither higher nor lower is better"):
        complete_policy(direction, "regression", METRICS)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"0.1": [1.0], "0.9": [2.0]}, "without the median, 0.5"),
        ({"0.1": [3.0], "0.5": [2.0]}, "the quantiles of 1 of 1 rows are not in ascending order"),
        ({"mean": [3.0], "0.5": [2.0]}, "returned a column 'mean', which is not a quantile"),
        ({"1.5": [3.0], "0.5": [2.0]}, "returned a column '1.5', which is not a quantile"),
    ],
)
def test_refuses_a_frame_of_other_columns(columns: dict[str, list[float]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        split_quantiles(pd.DataFrame(columns))


def test_quantiles_are_sorted_by_name_and_the_median_is_the_score() -> None:
    score, quantiles = split_quantiles(pd.DataFrame({0.9: [3.0], 0.1: [1.0], 0.5: [2.0]}))
    assert score.tolist() == [2.0] and list(quantiles) == ["0.1", "0.5", "0.9"]
    score, quantiles = split_quantiles(np.array([1.0, 2.0]))
    assert score.tolist() == [1.0, 2.0] and quantiles == {}


@pytest.mark.parametrize(
    ("change", "has_picture"),
    [(lambda holdout: holdout, True), (lambda holdout: replace(holdout, candidate_quantiles={}), False)],
    ids=["quantiles", "without"],
)
def test_the_report_has_a_plot_of_the_coverage(
    tmp_path: Path, change: Callable[[Holdout], Holdout], has_picture: bool
) -> None:
    holdout = change(build_holdout(0.8))
    judgement = judge(JudgedData(holdout), Policy(group_by="date", min_rows=1_000, serving=None))
    page = write_report(tmp_path / "report", build_verdict(), holdout, judgement, POLICY, {"x": 1.0}, {})
    assert (tmp_path / "report/quantiles.png").exists() == has_picture
    assert ("Coverage of the quantiles" in page.read_text()) == has_picture
    assert "Predictions and residuals" in page.read_text()
