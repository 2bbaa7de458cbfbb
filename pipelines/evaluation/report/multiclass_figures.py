"""Draw the pictures of the evaluation report that only a multiclass model has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.metrics import compute_calibration
from pipelines.evaluation.multiclass import count_confusion, draw_confusion, draw_top_reliability, tabulate_top_class
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt

COLUMNS = 4
"""Number of classes that are drawn side by side."""
MAX_CURVES = 8
"""Largest number of classes whose curve is drawn: those with the most rows."""
Models = list[tuple[Array, str, str]]
"""Scores, name and color of each model."""


def draw_classes(holdout: Holdout) -> Any:
    """Draw the candidate's confusion matrix, and its ROC curves: each of the largest classes against all others."""
    figure, (confusion_axis, roc_axis) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    counts = count_confusion(holdout.label, holdout.candidate_score, len(holdout.classes))
    draw_confusion(confusion_axis, counts, holdout.classes)
    confusion_axis.set_title("Candidate: rows by class and predicted class")
    roc_axis.plot([0, 1], [0, 1], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    for class_index in np.argsort(-counts.sum(axis=1), kind="stable")[:MAX_CURVES]:
        is_of_class = holdout.label == class_index
        if is_of_class.any():
            false_rate, true_rate, _ = roc_curve(is_of_class, holdout.candidate_score[:, class_index])
            roc_axis.plot(false_rate, true_rate, linewidth=1.2, label=holdout.classes[class_index])
    roc_axis.set(
        xlabel="false positive rate", ylabel="true positive rate", title="ROC of each class against all others"
    )
    roc_axis.legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def draw_class_reliability(holdout: Holdout) -> Any:
    """Draw the reliability of the largest classes for both models: observed share against predicted probability."""
    rows = np.bincount(holdout.label, minlength=len(holdout.classes))
    class_indices = [int(index) for index in np.argsort(-rows, kind="stable")[:MAX_CURVES] if rows[index]]
    axis_rows = math.ceil(len(class_indices) / COLUMNS)
    figure, axes = plt.subplots(axis_rows, COLUMNS, figsize=(11, 2.9 * axis_rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(class_indices) :]:
        axis.set_axis_off()
    for axis, class_index in zip(axes.flat, class_indices, strict=False):
        is_of_class, largest_value = (holdout.label == class_index).astype(np.float64), 0.0
        for score, name, color in _list_models(holdout):
            bins = compute_calibration(is_of_class, score[:, class_index])
            axis.plot(bins["predicted"], bins["observed"], color=color, marker="o", markersize=3, label=name)
            largest_value = max(largest_value, *bins["predicted"], *bins["observed"])
        axis.plot([0, largest_value], [0, largest_value], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
        axis.set_title(f"{holdout.classes[class_index][:28]}: {rows[class_index]:,} rows", fontsize=9)
    axes[0, 0].set(xlabel="mean probability of a tenth of the rows", ylabel="share of the class")
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize=8)
    return figure


def draw_top_reliability_of_models(axis: Axes, holdout: Holdout) -> None:
    """Draw the reliability of the predicted class for both models: how often it is right, against its probability."""
    for score, name, color in _list_models(holdout):
        draw_top_reliability(axis, tabulate_top_class(holdout.label, score), name, color)
    axis.set_title("Reliability of the predicted class")


def draw_recalls(axis: Axes, holdout: Holdout) -> None:
    """Draw the recall of each class, for both models."""
    models = _list_models(holdout)
    heights = np.arange(len(holdout.classes))
    for position, (score, name, color) in enumerate(models):
        counts = count_confusion(holdout.label, score, len(holdout.classes))
        recalls = np.diag(counts) / np.maximum(counts.sum(axis=1), 1)
        axis.barh(heights + 0.4 * position, recalls, height=0.38, color=color, label=name)
    axis.set_yticks(heights, holdout.classes, fontsize=8)
    axis.set(xlim=(0, 1), title="Recall of each class")
    axis.legend(frameon=False, fontsize=8)


def _list_models(holdout: Holdout) -> Models:
    models = [
        (holdout.champion_score, "champion", CHAMPION_COLOR),
        (holdout.candidate_score, "candidate", CANDIDATE_COLOR),
    ]
    return [(score, name, color) for score, name, color in models if score is not None]
