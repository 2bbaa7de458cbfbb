"""Build the metrics of a multiclass model. Each is a function of the rows' weights, as in the module `weighted`.

Each builder takes the index of each row's class, shape (rows,), and the probabilities of the classes, shape (rows,
classes). It returns a function of weights of shape (draws, rows). With weights of 1, the metric equals that of
scikit-learn. In each draw, a mean over classes leaves out the classes for which the metric cannot be computed.
"""

from __future__ import annotations

import numpy as np

from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.sums import (
    ALL_ROWS,
    MeanOfMetrics,
    RowValues,
    WeightedAuc,
    WeightedMetric,
    WeightedSums,
    build_mean_metric,
    divide,
)


def build_log_loss_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean negative log likelihood in nats. Probabilities below eps of float64 count as eps."""
    likelihood = score[np.arange(len(label)), label]
    return build_mean_metric(-np.log(np.clip(likelihood, np.finfo(np.float64).eps, 1.0)))


def build_accuracy_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the share of rows whose class has the largest probability; of equal probabilities, the first is used."""
    return build_mean_metric((find_predicted_classes(score) == label).astype(np.float64))


def build_balanced_accuracy_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean of the recalls of the classes."""
    return MeanOfMetrics([build_recall_metric(label, score, class_index) for class_index in np.unique(label)])


def build_macro_auc_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean over classes of the AUC of the class against all others."""
    return MeanOfMetrics([build_class_auc_metric(label, score, class_index) for class_index in np.unique(label)])


def build_class_auc_metric(label: Array, score: Array, class_index: int) -> WeightedAuc:
    """Build the AUC of a class against all others, by the probability of the class."""
    return WeightedAuc(label == class_index, score[:, class_index])


def build_macro_f1_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean over classes of the harmonic mean of precision and recall."""
    predicted_classes = find_predicted_classes(score)
    return MeanOfMetrics(
        [
            _build_f1_metric(label, predicted_classes, class_index)
            for class_index in np.union1d(label, predicted_classes)
        ]
    )


def build_recall_metric(label: Array, score: Array, class_index: int) -> WeightedSums:
    """Build the share of the rows of a class that are predicted as this class."""
    rows = np.flatnonzero(label == class_index)
    hits = (find_predicted_classes(score[rows]) == class_index).astype(np.float64)
    terms: list[RowValues] = [(rows, hits), (rows, np.ones(len(rows)))]
    return WeightedSums(terms, lambda hits, class_rows: divide(hits, class_rows, np.nan))


def measure_top_class(label: Array, score: Array) -> tuple[Array, Array]:
    """Return two arrays of shape (rows,): whether the predicted class is right, and the probability of this class."""
    return find_predicted_classes(score) == label, np.clip(score.max(axis=1), 0.0, 1.0)


def find_predicted_classes(score: Array) -> Array:
    """Return the index of the class with the largest probability; shape (rows,)."""
    return np.asarray(np.argmax(score, axis=1))


def _build_f1_metric(label: Array, predicted_classes: Array, class_index: int) -> WeightedSums:
    is_label, is_predicted = label == class_index, predicted_classes == class_index
    # 2 TP / (2 TP + FP + FN) = TP / ((predicted + label) / 2)
    terms: list[RowValues] = [
        (ALL_ROWS, (is_label & is_predicted).astype(np.float64)),
        (ALL_ROWS, (is_label.astype(np.float64) + is_predicted) / 2),
    ]
    return WeightedSums(terms, lambda hits, mean_rows: divide(hits, mean_rows, np.nan))
