"""Define the metrics of the parts of a holdout (its slices and weeks): AUC, accuracy, or relative accuracy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import sem

from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.statistics import delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.groups import estimate_by_groups
from pipelines.evaluation.statistics.multiclass import find_predicted_classes
from pipelines.evaluation.statistics.sums import WeightedSums, build_mean_metric
from pipelines.evaluation.statistics.weighted import build_auc_metric, compute_metric


class AucMetric:
    """The AUC. Without groups, the interval is DeLong's."""

    name = "AUC"

    def build(self, label: Array, score: Array) -> Callable[[Array], Array]:
        """Return the metric as a function of weights of the rows, shape (n, rows), with results of shape (n,)."""
        return build_auc_metric(label == 1, score)

    def estimate_by_rows(self, label: Array, scores: Sequence[Array], alpha: float) -> Estimate:
        """Estimate the metric of one score, or the first score's metric minus the second's, for independent rows."""
        if len(scores) == 1:
            return delong.estimate_auc(label, scores[0], alpha)
        return delong.estimate_auc_difference(label, scores[0], scores[1], alpha)

    def has_value(self, label: Array) -> bool:
        """Return whether the metric can be computed on these rows."""
        return len(np.unique(label)) == 2


class MeanMetric(ABC):
    """A metric that is the mean of one number for each row. Greater is better."""

    name: str

    @abstractmethod
    def compute_row_values(self, label: Array, score: Array) -> Array:
        """Compute the number of each row; shape (rows,)."""

    def build(self, label: Array, score: Array) -> WeightedSums:
        """Return the metric as a function of weights of the rows, shape (n, rows), with results of shape (n,)."""
        return build_mean_metric(self.compute_row_values(label, score))

    def estimate_by_rows(self, label: Array, scores: Sequence[Array], alpha: float) -> Estimate:
        """Estimate the metric of one score, or the first score's metric minus the second's, for independent rows."""
        row_values = [self.compute_row_values(label, score) for score in scores]
        values = row_values[0] if len(row_values) == 1 else row_values[0] - row_values[1]
        se = float(sem(values)) if len(values) > 1 else math.inf
        return Estimate.from_standard_error(
            float(values.mean()), se, len(values), alpha, lowest=-math.inf, highest=math.inf
        )

    def has_value(self, label: Array) -> bool:
        """Return whether the metric can be computed on these rows."""
        return len(label) > 0


class RelativeAccuracy(MeanMetric):
    """1 minus the ratio of the mean absolute error to a fixed error, `scale`.

    The metric has no unit, and greater is better. It is 0 if the error equals `scale`. It falls by 0.05 if the error
    grows by 5 % of `scale`.
    """

    name = "1 - MAE / MAE of the holdout"

    def __init__(self, scale: float) -> None:
        self.scale = scale or 1.0  # a scale of 0 would divide by 0

    def compute_row_values(self, label: Array, score: Array) -> Array:
        """Compute 1 minus the relative error of each row; shape (rows,)."""
        return np.asarray(1 - np.abs(score - label) / self.scale)


class Accuracy(MeanMetric):
    """The accuracy: the share of rows whose predicted class is right."""

    name = "accuracy"

    def compute_row_values(self, label: Array, score: Array) -> Array:
        """Compute 1 for each row whose class is right, else 0; shape (rows,)."""
        return np.asarray(find_predicted_classes(score) == label, dtype=np.float64)


PartMetric = AucMetric | MeanMetric


def choose_part_metric(holdout: Holdout, score: Array) -> PartMetric:
    """Choose the metric by the holdout's task. In a regression, its scale is the mean absolute error of `score`."""
    if holdout.task == "binary":
        return AucMetric()
    if holdout.task == "multiclass":
        return Accuracy()
    return RelativeAccuracy(compute_metric(holdout.label, score, "mae"))


def estimate_part(
    metric: PartMetric,
    label: Array,
    scores: Sequence[Array],
    alpha: float,
    groups: Array | None,
    *,
    is_autocorrelated: bool = True,
) -> Estimate:
    """Estimate the metric of one score on the rows of a part, or the first score's metric minus the second's.

    Without groups, rows are treated as independent. With groups, the method is the jackknife of `estimate_by_groups`;
    with only one group, the interval is infinite. `is_autocorrelated` says whether groups that follow each other may be
    related.
    """
    if groups is None:
        return metric.estimate_by_rows(label, scores, alpha)
    metrics, group_numbers = [metric.build(label, score) for score in scores], np.unique(groups, return_inverse=True)[1]
    if not group_numbers.any():  # with one group, the standard error is not known
        value, *other_values = (float(compute(np.ones((1, len(label))))[0]) for compute in metrics)
        return Estimate(value - sum(other_values), -math.inf, math.inf, math.inf, len(label), 1)
    return estimate_by_groups(metrics, group_numbers, alpha, is_autocorrelated=is_autocorrelated)
