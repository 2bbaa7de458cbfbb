"""Test metrics of a dataset's metrics.py: their weights, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error

from pipelines.errors import SpecError
from pipelines.evaluation.own_metrics import load_own_metrics, make_metric
from pipelines.evaluation.statistics.weighted import Metric, compute_metric

RANDOM = np.random.default_rng(2)
LABEL, SCORE = RANDOM.normal(size=(2, 300))


def compute_mae(label: np.ndarray, score: np.ndarray) -> float:
    return float(np.abs(score - label).mean())


@pytest.mark.parametrize("function", [compute_mae, mean_absolute_error])
@pytest.mark.parametrize("weights", [RANDOM.integers(0, 3, size=300), np.full(300, 2.5)], ids=["whole", "equal"])
def test_a_function_is_a_weighted_metric(function: Any, weights: np.ndarray) -> None:
    metric = make_metric(function, greater_is_better=False, task="regression")
    expected = mean_absolute_error(LABEL, SCORE, sample_weight=weights)
    assert compute_metric(LABEL, SCORE, metric, weights.astype(float)) == pytest.approx(expected)


def test_weights_that_are_not_whole_repeat_rows_in_proportion() -> None:
    weights = RANDOM.uniform(1.0, 3.0, size=300)
    metric = make_metric(compute_mae, greater_is_better=False, task="regression")
    expected = mean_absolute_error(LABEL, SCORE, sample_weight=weights)
    assert compute_metric(LABEL, SCORE, metric, weights) == pytest.approx(expected, rel=0.02)


def load(metrics: object, task: str = "regression") -> dict[str, Metric]:
    """Load metrics as those of a dataset."""
    module = ModuleType("metrics")
    module.METRICS = metrics  # type: ignore[attr-defined]
    dataset: Any = SimpleNamespace(
        task=task, find_file=lambda name: Path("ours") / name, import_module=lambda name: module
    )
    return load_own_metrics(dataset)


def test_loads_the_metrics_of_the_dataset() -> None:
    metric = make_metric(compute_mae, greater_is_better=False, task="regression")
    assert load({"cost": metric}) == {"cost": metric}
    for metrics, task, problem in (
        ({"rmse": metric}, "regression", "ours/metrics.py has a metric 'rmse', which is the name of a common metric"),
        ({"auc": metric}, "regression", "ours/metrics.py has a metric 'auc', which is the name of a common metric"),
        ({"cost": compute_mae}, "regression", "'cost' in ours/metrics.py is not a metric"),
        ({"cost": metric}, "binary", "'cost' in ours/metrics.py is a metric of regression models, but the task is b"),
        (3, "regression", "ours/metrics.py cannot be used"),
    ):
        with pytest.raises(SpecError, match=problem):
            load(metrics, task)
