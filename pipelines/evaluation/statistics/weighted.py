"""Build metrics as functions of weights of the rows. The rows are sorted only once, when the function is built.

Each builder of a binary metric takes labels (bool) and scores, and returns a function. The function takes weights of
shape (draws, rows), and returns the metric of each draw, shape (draws,). A draw is one set of weights, such as a
resample of the bootstrap. With weights of 1, the metric equals the same metric of scikit-learn, and `ece` equals that
of `pipelines.evaluation.metrics`. If a draw lacks one of the two labels, a metric that needs both is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipelines.dataset import Task
from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import multiclass, regression
from pipelines.evaluation.statistics.inputs import Array, validate_labels, validate_numbers, validate_probabilities
from pipelines.evaluation.statistics.sums import (
    ALL_ROWS,
    MetricBuilder,
    RowValues,
    WeightedAuc,
    WeightedMetric,
    WeightedSums,
    build_mean_metric,
    divide,
)

PINBALL, COVERAGE = "pinball", "coverage"
"""Beginnings of the names of the metrics of quantiles."""
BINS = 10
"""Number of bins of the calibration error, as in `pipelines.evaluation.metrics`."""


def build_auc_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the AUC (ROC): the share of pairs of label 1 and label 0 in the right order. A tie is half."""
    return WeightedAuc(label, score)


def build_pr_auc_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the average precision: the sum over distinct scores of the precision times the increase in recall."""
    order = np.argsort(-score, kind="stable")
    # Positions of the last row of each distinct score: rows of equal score count together.
    tie_ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    ordered_label = label[order]

    def compute(weights: Array) -> Array:
        ordered_weights = weights[:, order]
        predicted_rows = np.cumsum(ordered_weights, axis=1)[:, tie_ends]
        true_positives = np.cumsum(ordered_weights * ordered_label, axis=1)[:, tie_ends]
        increase = np.diff(true_positives, axis=1, prepend=0.0)
        return divide(
            (increase * divide(true_positives, predicted_rows, 0.0)).sum(axis=1), true_positives[:, -1], np.nan
        )

    return compute


def build_log_loss_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean negative log likelihood, nats, of probabilities that are clipped to eps and 1 - eps of float64."""
    epsilon = float(np.finfo(np.float64).eps)
    likelihood = np.where(label, validate_probabilities(score), 1 - score)
    return build_mean_metric(-np.log(np.clip(likelihood, epsilon, 1 - epsilon)))


def build_brier_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean squared error of the probability."""
    return build_mean_metric((validate_probabilities(score) - label) ** 2)


def build_ece_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the expected calibration error over ten bins with equally many rows (Naeini et al. 2015).

    The bins are those of the unweighted rows, and stay fixed from draw to draw.
    """
    gap = validate_probabilities(score) - label
    terms: list[RowValues] = [(ALL_ROWS, np.ones(len(label)))]
    terms += [(bin_rows, gap[bin_rows]) for bin_rows in split_into_bins(score)]
    return WeightedSums(terms, lambda rows, *gaps: divide(np.abs(gaps).sum(axis=0), rows, np.nan))


def build_top_ece_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the expected calibration error of the predicted class's probability (Guo et al. 2017, ICML)."""
    return build_ece_metric(*multiclass.measure_top_class(label, score))


def split_into_bins(score: Array) -> list[Array]:
    """Return the rows of each bin of the calibration error, lowest scores first; fewer bins if there are fewer rows."""
    return [bin_rows for bin_rows in np.array_split(np.argsort(score, kind="stable"), BINS) if len(bin_rows)]


def build_accuracy_metric(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Build the share of rows on the right side of the threshold; a score at the threshold predicts 1."""
    return build_mean_metric(((score >= threshold) == label).astype(np.float64))


def build_precision_metric(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Build the share of label 1 among the rows predicted 1; 0 if no row is predicted 1."""
    is_predicted = score >= threshold
    return _build_share_metric(is_predicted & label, is_predicted.astype(np.float64))


def build_recall_metric(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Build the share of rows predicted 1 among the rows of label 1; 0 if no row has label 1."""
    return _build_share_metric((score >= threshold) & label, label.astype(np.float64))


def build_f1_metric(label: Array, score: Array, threshold: float = 0.5) -> WeightedMetric:
    """Build the harmonic mean of precision and recall; 0 if no row has label 1 and none is predicted 1."""
    is_predicted = score >= threshold
    # 2 TP / (2 TP + FP + FN) = TP / ((predicted + label) / 2)
    return _build_share_metric(is_predicted & label, (is_predicted.astype(np.float64) + label) / 2)


@dataclass(frozen=True)
class Metric:
    """A metric, its direction and its task."""

    build: MetricBuilder
    """Takes labels and scores; returns the metric as a function of weights."""
    greater_is_better: bool | None
    """None if neither greater nor less is better (the best bias is 0), or if it is not known."""
    task: Task = "binary"
    """Task of the models that the metric measures."""
    is_share: bool = False
    """Whether the metric can be any number from 0 to 1, both included. Its interval then has these limits, too."""
    quantiles: Sequence[str] = ()
    """Names of the quantiles that the metric measures instead of scores. `build` then takes their predicted
    values, shape (rows, quantiles)."""


BINARY_METRICS: Mapping[str, Metric] = {
    "auc": Metric(build_auc_metric, greater_is_better=True, is_share=True),
    "pr_auc": Metric(build_pr_auc_metric, greater_is_better=True, is_share=True),
    "log_loss": Metric(build_log_loss_metric, greater_is_better=False),
    "brier": Metric(build_brier_metric, greater_is_better=False, is_share=True),
    "ece": Metric(build_ece_metric, greater_is_better=False),
    "accuracy": Metric(build_accuracy_metric, greater_is_better=True, is_share=True),
    "precision": Metric(build_precision_metric, greater_is_better=True, is_share=True),
    "recall": Metric(build_recall_metric, greater_is_better=True, is_share=True),
    "f1": Metric(build_f1_metric, greater_is_better=True, is_share=True),
}
REGRESSION_METRICS: Mapping[str, Metric] = {
    "rmse": Metric(regression.build_rmse_metric, greater_is_better=False, task="regression"),
    "mae": Metric(regression.build_mae_metric, greater_is_better=False, task="regression"),
    "median_ae": Metric(regression.build_median_ae_metric, greater_is_better=False, task="regression"),
    "r2": Metric(regression.build_r2_metric, greater_is_better=True, task="regression"),
    "bias": Metric(regression.build_bias_metric, greater_is_better=None, task="regression"),
}
MULTICLASS_METRICS: Mapping[str, Metric] = {
    "log_loss": Metric(multiclass.build_log_loss_metric, greater_is_better=False, task="multiclass"),
    "macro_auc": Metric(multiclass.build_macro_auc_metric, greater_is_better=True, task="multiclass", is_share=True),
    "accuracy": Metric(multiclass.build_accuracy_metric, greater_is_better=True, task="multiclass", is_share=True),
    "balanced_accuracy": Metric(
        multiclass.build_balanced_accuracy_metric, greater_is_better=True, task="multiclass", is_share=True
    ),
    "macro_f1": Metric(multiclass.build_macro_f1_metric, greater_is_better=True, task="multiclass", is_share=True),
    "ece": Metric(build_top_ece_metric, greater_is_better=False, task="multiclass"),
}
CLASS_METRICS: Mapping[str, Callable[..., WeightedMetric]] = {
    "recall": multiclass.build_recall_metric,
    "auc": multiclass.build_class_auc_metric,
}
"""Maps a prefix, such as `recall` of recall/late, to the function that makes the metric for one class. Besides labels
and scores, the function takes the index of the class."""
MEANS_OVER_CLASSES = ("macro_auc", "balanced_accuracy", "macro_f1")
"""Metrics in which a class with few rows has the same weight as any other class."""
METRICS: Mapping[Task, Mapping[str, Metric]] = {
    "binary": BINARY_METRICS,
    "multiclass": MULTICLASS_METRICS,
    "regression": REGRESSION_METRICS,
}
"""Maps each task to its metrics, by name."""


def list_metrics(task: Task, classes: Sequence[str] = (), quantiles: Sequence[str] = ()) -> dict[str, Metric]:
    """Return the metrics of a task, by name.

    Args:
        task: what the models predict.
        classes: classes of a multiclass model. Each class has two metrics, such as recall/late and auc/late.
        quantiles: names of the quantiles of a regression, such as 0.1, ascending. Each has a pinball loss, such as
            pinball/0.1; `pinball` is the mean of these losses. Each pair of quantiles that adds up to 1 has a coverage,
            such as coverage/0.1-0.9.
    """
    class_metrics = {
        f"{prefix}/{name}": Metric(
            partial(build, class_index=index), greater_is_better=True, task="multiclass", is_share=True
        )
        for prefix, build in CLASS_METRICS.items()
        for index, name in enumerate(classes)
    }
    return {**METRICS[task], **class_metrics, **_list_quantile_metrics(quantiles)}


def _list_quantile_metrics(names: Sequence[str]) -> dict[str, Metric]:
    quantiles_by_loss = {PINBALL: tuple(names), **{f"{PINBALL}/{name}": (name,) for name in names}} if names else {}
    metrics = {
        metric: Metric(
            partial(regression.build_pinball_metric, quantiles=[float(name) for name in measured_names]),
            greater_is_better=False,
            task="regression",
            quantiles=measured_names,
        )
        for metric, measured_names in quantiles_by_loss.items()
    }
    pairs = [(low, high) for low in names for high in names if float(low) < 0.5 and is_symmetric_pair(low, high)]
    coverages = {
        f"{COVERAGE}/{low}-{high}": Metric(
            regression.build_coverage_metric,
            greater_is_better=None,
            task="regression",
            is_share=True,
            quantiles=(low, high),
        )
        for low, high in pairs
    }
    return {**metrics, **coverages}


def is_symmetric_pair(low: str, high: str) -> bool:
    """Return whether the two quantiles add up to 1, as 0.1 and 0.9 do."""
    return math.isclose(float(low) + float(high), 1.0)


def select_measured_classes(metric: str, classes: Sequence[str]) -> list[str]:
    """Return the classes that a metric of a multiclass model measures separately.

    For the metric of one class, such as recall/late, this is the class. For a mean over classes, these are all classes.
    For a metric that measures all rows together, such as the accuracy, the list is empty.
    """
    prefix, _, name = metric.partition("/")
    if metric in MEANS_OVER_CLASSES:
        return list(classes)
    return [name] if prefix in CLASS_METRICS and name in classes else []


def is_class_or_quantile_metric(metric: str, task: Task) -> bool:
    """Return whether this is the name of a metric of one class, such as recall/late, or of quantiles, such as pinball.

    The class or quantile need not exist: which ones a model has is known only after its training.
    """
    prefixes = {"multiclass": CLASS_METRICS, "regression": (PINBALL, COVERAGE)}.get(task, ())
    return metric.startswith(tuple(f"{prefix}/" for prefix in prefixes)) or (task == "regression" and metric == PINBALL)


def find_metric(metric: str | MetricBuilder | Metric) -> Metric:
    """Return the metric of this name. If several tasks have the name, return the metric of binary models.

    A function that makes a metric becomes a metric of binary models; whether greater is better is then not known. A
    `Metric` is returned unchanged.

    For a threshold other than 0.5, give a function such as `functools.partial(build_f1_metric, threshold=0.3)`.

    Raises:
        SpecError: no metric has this name. A retry cannot help.
    """
    if isinstance(metric, Metric):
        return metric
    if callable(metric):
        return Metric(metric, greater_is_better=None)
    known_metrics = {**MULTICLASS_METRICS, **REGRESSION_METRICS, **BINARY_METRICS}
    if metric not in known_metrics:
        raise SpecError(f"there is no metric {metric!r}.", f"Use one of: {', '.join(known_metrics)}.")
    return known_metrics[metric]


def compute_metric(
    label: Array, score: Array, metric: str | MetricBuilder | Metric, weights: Array | None = None
) -> float:
    """Compute a metric of weighted rows; without weights, each row has the weight 1.

    Raises:
        DataError: the rows are not valid, or a weight is negative or not finite. A retry cannot help.
        SpecError: no metric has this name. A retry cannot help.
    """
    definition = find_metric(metric)
    truth, (scores,) = validate_labels(definition.task, label, score)
    row_weights = np.ones(len(truth)) if weights is None else validate_numbers(weights, len(truth), "weight")
    if (row_weights < 0).any():
        raise DataError("a weight is below 0.")
    return float(definition.build(truth, scores)(row_weights[np.newaxis])[0])


def _build_share_metric(part: Array, total: Array) -> WeightedMetric:
    """Build the weighted sum of `part` divided by that of `total`; 0 if the latter is 0."""
    terms: list[RowValues] = [(ALL_ROWS, part.astype(np.float64)), (ALL_ROWS, total)]
    return WeightedSums(terms, lambda numerator, denominator: divide(numerator, denominator, 0.0))
