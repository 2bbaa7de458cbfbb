"""Make a metric from a user's function. The gate estimates its interval and checks its bounds, as for other metrics.

A dataset lists its metrics in metrics.py:

    METRICS = {"cost": make_metric(compute_cost, greater_is_better=False, task="regression")}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

import numpy as np

from pipelines.dataset import Dataset, Task
from pipelines.errors import SpecError
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.sums import WeightedMetric
from pipelines.evaluation.statistics.weighted import METRICS, Metric

WEIGHT = "sample_weight"
"""Parameter that scikit-learn's metrics have for the weights of rows."""
REPETITIONS_OF_SMALLEST_WEIGHT = 10
"""How often a row of the smallest weight is repeated if the weights are not whole numbers. More repetitions would
follow the weights more exactly, and take longer."""


def make_metric(function: Callable[..., float], *, greater_is_better: bool, task: Task) -> Metric:
    """Make a metric from a function.

    Args:
        function: takes labels and scores, each of shape (rows,), and returns a number. If it has a parameter
            `sample_weight`, as scikit-learn's metrics do, it also gets weights of shape (rows,). If not, each row is
            repeated as often as its weight says, which takes longer.
        greater_is_better: whether a greater number means a better model.
        task: task of the models that the metric measures. Labels of binary models are 0 and 1. Labels of multiclass
            models are indices of the sorted classes, from 0, and scores have the shape (rows, classes).
    """
    takes_weights = WEIGHT in signature(function).parameters

    def build(label: Array, score: Array) -> WeightedMetric:
        labels = label.astype(np.float64) if label.dtype == bool else label

        def compute(weights: Array) -> float:
            rows = np.flatnonzero(weights)
            if takes_weights:
                return float(function(labels[rows], score[rows], sample_weight=weights[rows]))
            repeated_rows = np.repeat(rows, _count_repetitions(weights[rows]))
            return float(function(labels[repeated_rows], score[repeated_rows]))

        return lambda draws: np.array([compute(weights) for weights in draws])

    return Metric(build, greater_is_better, task)


def load_own_metrics(dataset: Dataset) -> Mapping[str, Metric]:
    """Load the metrics of the dataset's metrics.py. Without this file, the dataset has no metrics of its own.

    Raises:
        SpecError: the file cannot be imported or lacks `METRICS`, or one of its metrics was not made with
            `make_metric`, has the name of a common metric, or belongs to another task. A retry cannot help.
    """
    path = dataset.find_file("metrics.py")
    try:
        metrics: Mapping[str, Metric] = dict(dataset.import_module("metrics").METRICS)
    except Exception as error:  # the file may raise any error when it is imported
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise SpecError(f"{path} cannot be used: {reason}.", "Correct the file.") from None
    for name, metric in metrics.items():
        if not isinstance(metric, Metric):
            raise SpecError(f"{name!r} in {path} is not a metric.", "Make it with `make_metric`.")
        if any(name in metrics_of_task for metrics_of_task in METRICS.values()):
            raise SpecError(f"{path} has a metric {name!r}, which is the name of a common metric.", "Rename it.")
        if metric.task != dataset.task:
            message = f"{name!r} in {path} is a metric of {metric.task} models, but the task is {dataset.task}."
            raise SpecError(message, "Correct `task` of the metric, or remove the metric.")
    return metrics


def _count_repetitions(weights: Array) -> Array:
    """Return how often each row is repeated: its weight if all weights are whole numbers, else in proportion to it."""
    rounded_weights = np.rint(weights)
    if np.allclose(weights, rounded_weights):
        return np.asarray(rounded_weights, dtype=int)
    return np.asarray(np.rint(weights / weights.min() * REPETITIONS_OF_SMALLEST_WEIGHT), dtype=int)
