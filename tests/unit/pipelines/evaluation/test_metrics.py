"""Test the metrics, curves and pictures of an evaluation."""

import math
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import DataError
from pipelines.evaluation import metrics
from pipelines.evaluation.figure import draw_evaluation
from pipelines.evaluation.tables import write_tables

RANDOM = np.random.default_rng(3)
LABEL = (RANDOM.random(4_000) < 0.25).astype(float)


def test_metrics_separate_a_perfect_a_useless_and_a_reversed_model() -> None:
    perfect_metrics = metrics.compute_metrics(LABEL, np.clip(LABEL, 1e-6, 1 - 1e-6), 0.25)
    assert perfect_metrics["auc"] == perfect_metrics["pr_auc"] == 1.0
    assert perfect_metrics["brier"] < 1e-9
    useless_metrics = metrics.compute_metrics(LABEL, np.full(len(LABEL), LABEL.mean()), LABEL.mean())
    assert useless_metrics["auc"] == 0.5
    assert useless_metrics["log_loss"] == pytest.approx(useless_metrics["baseline_log_loss"])
    assert useless_metrics["ece"] < 0.05
    assert metrics.compute_metrics(LABEL, 1 - LABEL, 0.25)["auc"] == 0.0
    assert perfect_metrics["rows"] == 4_000


def test_ece_equals_a_calculation_by_hand() -> None:
    label, score = np.array([0.0] * 10 + [1.0] * 10), np.array([0.2] * 10 + [0.6] * 10)
    values = metrics.compute_metrics(label, score, 0.5)
    assert values["ece"] == pytest.approx((0.2 * 10 + 0.4 * 10) / 20)
    bins = metrics.compute_calibration(label, score)
    assert sum(bins["rows"]) == 20
    assert bins["predicted"] == sorted(bins["predicted"])


def test_a_confident_wrong_model_is_not_calibrated() -> None:
    assert metrics.compute_metrics(LABEL, np.full(len(LABEL), 0.99), 0.25)["ece"] > 0.7


@pytest.mark.parametrize("label", [np.zeros(50), np.ones(50), np.zeros(0)])
def test_refuses_labels_of_one_class(label: np.ndarray) -> None:
    with pytest.raises(DataError, match="holdout"):
        metrics.compute_metrics(label, np.full(len(label), 0.3), 0.25)


def test_refuses_scores_that_are_not_finite() -> None:
    with pytest.raises(DataError, match="score"):
        metrics.compute_metrics(LABEL, np.full(len(LABEL), math.nan), 0.25)


def test_ece_is_finite_with_fewer_rows_than_bins() -> None:
    values = metrics.compute_metrics(np.array([0.0, 1.0, 0.0]), np.array([0.1, 0.9, 0.3]), 0.3)
    assert math.isfinite(values["ece"])


def test_curves_are_thinned_and_keep_their_ends() -> None:
    curve = metrics.compute_precision_recall(LABEL, RANDOM.random(4_000))
    assert len(curve["recall"]) <= metrics.CURVE_POINTS
    assert (curve["recall"][0], curve["recall"][-1]) == (1.0, 0.0)


@pytest.mark.soak
def test_equal_curves_give_equal_bytes(tmp_path: Path) -> None:
    score = RANDOM.random(4_000)
    values = metrics.compute_metrics(LABEL, score, 0.25)
    tables = {
        "pr_curve": metrics.compute_precision_recall(LABEL, score),
        "calibration": metrics.compute_calibration(LABEL, score),
        "importance": metrics.tabulate_importance({"a": 0.75, "b": 0.25}),
    }
    for name in ("one.png", "two.png"):
        draw_evaluation(tmp_path / name, tables, values, "title")
    draw_evaluation(tmp_path / "three.png", tables, values, "another title")
    first, second, third = ((tmp_path / f"{name}.png").read_bytes() for name in ("one", "two", "three"))
    assert first == second != third
    write_tables(tmp_path / "plots", tables)
    assert (tmp_path / "plots/importance.csv").read_text().split() == ["feature,gain_share", "a,0.75", "b,0.25"]
