"""Measure a multiclass model on a holdout: compute its metrics and tables, and draw the figure of the evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipelines.evaluation.figure import MODEL_COLOR, draw_importance
from pipelines.evaluation.metrics import compute_calibration
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.multiclass import find_predicted_classes, measure_top_class
from pipelines.evaluation.statistics.weighted import MULTICLASS_METRICS, compute_metric, list_metrics
from pipelines.evaluation.tables import Table
from pipelines.pages.drawing import REFERENCE_COLOR, Axes, plt, save_figure

MAX_CELL_CLASSES = 12
"""With more classes than this, the cells of a drawn confusion matrix have no numbers."""


def compute_multiclass_metrics(
    label: Array, score: Array, class_shares: Array, classes: Sequence[str]
) -> dict[str, float]:
    """Compute the holdout metrics of a multiclass model.

    Args:
        label: index of each row's class, shape (rows,).
        score: probability of each class, shape (rows, classes).
        class_shares: share of each class in the training rows, which a model without features predicts for every row.
        classes: names of the classes.

    Returns:
        rows, log_loss (nats), macro_auc (mean over the classes of the AUC of one class against all others), accuracy,
        balanced_accuracy, macro_f1, ece (of the predicted class's probability), recall/CLASS and auc/CLASS of each
        class in the holdout, and baseline_log_loss and baseline_accuracy (of the constant class_shares).

    Raises:
        DataError: all labels are equal, or a score is not a finite number. A retry cannot help.
    """
    constant_score = np.broadcast_to(class_shares, score.shape)
    present_classes = [name for index, name in enumerate(classes) if (label == index).any()]
    names = list_metrics("multiclass", present_classes)
    # The metric of a class uses the index of the class among all classes, so all classes are listed.
    all_metrics = list_metrics("multiclass", classes)
    values = {name: compute_metric(label, score, metric) for name, metric in all_metrics.items() if name in names}
    baselines = {
        f"baseline_{name}": compute_metric(label, constant_score, MULTICLASS_METRICS[name])
        for name in ("log_loss", "accuracy")
    }
    return {"rows": float(len(label)), **values, **baselines}


def tabulate_confusion(label: Array, score: Array, classes: Sequence[str]) -> Table:
    """Count the rows of each class by predicted class.

    Returns:
        The columns label, predicted and rows, with one row for each pair of classes.
    """
    counts = count_confusion(label, score, len(classes))
    return {
        "label": [name for name in classes for _ in classes],
        "predicted": [name for _ in classes for name in classes],
        "rows": counts.ravel().tolist(),
    }


def count_confusion(label: Array, score: Array, class_count: int) -> Array:
    """Count the rows by class and predicted class; shape (classes, classes)."""
    cells = label * class_count + find_predicted_classes(score)
    return np.bincount(cells, minlength=class_count**2).reshape(class_count, class_count)


def tabulate_top_class(label: Array, score: Array) -> Table:
    """Tabulate, in ten bins of rows, the mean probability of the predicted class, and how often this class is right.

    Returns:
        The columns of `compute_calibration`.
    """
    is_right, confidence = measure_top_class(label, score)
    return compute_calibration(is_right.astype(np.float64), confidence)


def draw_multiclass(path: Path, tables: Mapping[str, Table], metrics: Mapping[str, float], title: str) -> None:
    """Draw confusion, reliability and feature importance to a PNG file. Equal tables give byte-identical files.

    Args:
        path: file to write.
        tables: confusion, calibration and importance.
        metrics: metrics of the same holdout.
        title: title of the figure.
    """
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    confusion = tables["confusion"]
    classes = list(dict.fromkeys(confusion["label"]))
    draw_confusion(axes[0], np.reshape(confusion["rows"], (len(classes), len(classes))), classes)
    axes[0].set_title(f"accuracy {metrics['accuracy']:.3f}, macro F1 {metrics['macro_f1']:.3f}")
    draw_top_reliability(axes[1], tables["calibration"], "model, deciles of the rows", MODEL_COLOR)
    axes[1].set_title(f"ECE {metrics['ece']:.3f}, log loss {metrics['log_loss']:.3f}")
    draw_importance(axes[2], tables["importance"])
    figure.suptitle(title, fontsize=11)
    save_figure(path, figure, dpi=96)


def draw_confusion(axis: Axes, counts: Array, classes: Sequence[str]) -> None:
    """Draw how many rows of each class were predicted as each class. The color shows their share of the class."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # A `vmax` above the largest share, 1, keeps the darkest color bright enough for the black numbers.
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1.4)
    if len(classes) <= MAX_CELL_CLASSES:
        for row, column in np.ndindex(counts.shape):
            axis.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=8)
    axis.set_xticks(range(len(classes)), classes, rotation=45, ha="right", fontsize=8)
    axis.set_yticks(range(len(classes)), classes, fontsize=8)
    axis.set(xlabel="predicted", ylabel="label")


def draw_top_reliability(axis: Axes, bins: Table, name: str, color: str) -> None:
    """Draw the reliability of the predicted class: how often it is right, against its mean probability."""
    axis.plot([0, 1], [0, 1], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    axis.plot(bins["predicted"], bins["observed"], color=color, marker="o", markersize=4, label=name)
    axis.set(xlabel="mean probability of the predicted class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axis.legend(loc="upper left", frameon=False)
