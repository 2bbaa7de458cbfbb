"""Define the metric by which retraining strategies are compared: AUC, accuracy or mean absolute error, by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import roc_auc_score

from pipelines.classes import predict_classes, split_quantiles
from pipelines.dataset import Task
from pipelines.score_columns import PREDICTED

Array = np.ndarray[Any, Any]
ALPHA = 0.05
"""Probability that an interval does not contain the true difference."""


@dataclass(frozen=True)
class PrimaryMetric:
    """The metric of a task."""

    task: Task
    name: str
    """Name among the metrics of an evaluation."""
    title: str
    """Name in reports."""
    greater_is_better: bool
    default_drop: float
    """How much worse than on the holdout the metric must be before the strategy "on drift" trains again, unless --drop
    is given."""
    is_relative: bool = False
    """Whether a drop is divided by the earlier value. True for MAE: it has the unit of the label, so no fixed
    drop suits every dataset."""

    def measure_rows(self, labels: pd.Series[Any], scores: Any) -> Array:
        """Return one number for each row, from which `compute_from_rows` computes the metric.

        Binary: the score. Multiclass: 1 if the predicted class is right, else 0. Regression: the absolute error.

        Args:
            labels: labels of the rows, all known.
            scores: what a model returned for the rows.
        """
        if self.task == "multiclass":
            predicted_classes = predict_classes(scores)[PREDICTED].to_numpy(dtype=object)
            return np.asarray(labels.astype(str).to_numpy(dtype=object) == predicted_classes, dtype=np.float64)
        if self.task == "regression":
            return np.asarray(np.abs(split_quantiles(scores)[0] - labels.to_numpy(dtype=np.float64)))
        return np.asarray(scores, dtype=np.float64)

    def compute_from_rows(self, labels: pd.Series[Any], values: Array) -> float | None:
        """Compute the metric from what `measure_rows` returned.

        Returns:
            The metric; None if there are no rows, or if the metric is the AUC and all labels are the same.
        """
        if self.task != "binary":
            return float(np.mean(values)) if len(values) else None
        is_positive = labels.to_numpy(dtype=bool)
        return None if is_positive.all() or not is_positive.any() else float(roc_auc_score(is_positive, values))

    def compute_drop(self, value: float, earlier_value: float) -> float:
        """Return how much worse a value is than an earlier value; below 0 if it is better.

        If `is_relative` is true, the drop is divided by the earlier value, unless the earlier value is 0.
        """
        drop = earlier_value - value if self.greater_is_better else value - earlier_value
        return drop / earlier_value if self.is_relative and earlier_value else drop

    def find_best(self, values: Sequence[float]) -> float:
        """Return the best of the values."""
        return max(values) if self.greater_is_better else min(values)

    def find_worst_index(self, values: Sequence[float]) -> int:
        """Return the position of the worst value; if several values are equally bad, that of the first."""
        worst_value = min(values) if self.greater_is_better else max(values)
        return list(values).index(worst_value)


AUC = PrimaryMetric("binary", "auc", "AUC", greater_is_better=True, default_drop=0.02)
PRIMARY_METRICS: Mapping[Task, PrimaryMetric] = {
    "binary": AUC,
    "multiclass": PrimaryMetric("multiclass", "accuracy", "accuracy", greater_is_better=True, default_drop=0.02),
    "regression": PrimaryMetric(
        "regression", "mae", "MAE", greater_is_better=False, default_drop=0.10, is_relative=True
    ),
}
"""Maps each task to its primary metric."""


@dataclass(frozen=True)
class Gain:
    """Mean difference of the values of two strategies, with its 95 % interval; positive if the first one is better."""

    mean: float
    low: float
    high: float

    @property
    def direction(self) -> str:
        """The direction of the difference: better, worse, or no clear difference."""
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "no clear difference"


def compare_values(metric: PrimaryMetric, values: Sequence[float], other_values: Sequence[float]) -> Gain | None:
    """Compare the values of two strategies by a paired t-test (Student 1908); None for fewer than two pairs.

    A pair has the values of both strategies in one week or month. The test takes the pairs as independent. Consecutive
    weeks or months are slightly correlated, so the interval is a little too narrow.
    """
    differences = np.subtract(values, other_values) * (1 if metric.greater_is_better else -1)
    if len(differences) < 2:
        return None
    half_width = float(stats.t.isf(ALPHA / 2, len(differences) - 1) * stats.sem(differences))
    mean = float(differences.mean())
    return Gain(mean, mean - half_width, mean + half_width)
