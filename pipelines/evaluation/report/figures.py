"""Draw the pictures of the evaluation report. Equal contents give byte-identical files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.dataset import Task
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.part_metrics import choose_part_metric
from pipelines.evaluation.metrics import compute_calibration
from pipelines.evaluation.report.curves import GRID, Band, Curves
from pipelines.evaluation.report.multiclass_figures import (
    draw_class_reliability,
    draw_classes,
    draw_recalls,
    draw_top_reliability_of_models,
)
from pipelines.evaluation.report.own_metrics import MetricParts, draw_own_metrics
from pipelines.evaluation.report.quantiles import draw_quantiles
from pipelines.evaluation.report.regression_figures import (
    draw_errors_by_week,
    draw_predictions,
    draw_reliability_of_models,
)
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.pages.drawing import CANDIDATE_COLOR, CHAMPION_COLOR, REFERENCE_COLOR, Axes, plt, save_figure

MAX_SLICES = 25
"""Largest number of slices that the picture shows: those with the lowest values."""
MAX_FEATURES = 15
"""Largest number of features that the picture shows: those with the largest shares."""


@dataclass(frozen=True)
class PictureData:
    """The data that the pictures show."""

    holdout: Holdout
    """Rows on which the candidate was judged."""
    candidate: Curves | None
    """Curves of the candidate; None for models that are not binary."""
    champion: Curves | None
    """Curves of the champion; None for models that are not binary, or if there is no champion to compare with."""
    slices: pd.DataFrame
    """Table of slices; columns `pipelines.evaluation.gates.holdout_parts.TABLE_COLUMNS`."""
    weeks: pd.DataFrame
    """Table of weeks; columns `pipelines.evaluation.gates.holdout_parts.TABLE_COLUMNS`."""
    importance: Mapping[str, float]
    """Maps each feature to its share of the gain, largest first."""
    threshold: float = math.nan
    """Smallest score with which a row is predicted positive; NaN for models that are not binary."""
    shares_below: Mapping[float, Estimate] = field(default_factory=dict)
    """Maps each quantile to the share of labels at or below the candidate's prediction of it; empty if it predicts no
    quantiles."""
    own_metrics: Mapping[str, MetricParts] = field(default_factory=dict)
    """The dataset's own metrics, by name; empty if it has none."""
    confusion: Mapping[str, int] = field(default_factory=dict)
    """Confusion matrix at the threshold; empty for models that are not binary."""


def draw_figures(folder: Path, data: PictureData) -> list[Path]:
    """Draw the pictures to `folder`; return their paths, in the order of the page."""
    drawings_by_task: dict[Task, dict[str, Callable[[PictureData], Any]]] = {
        "binary": {"curves": _draw_curves},
        "multiclass": {"classes": _draw_classes, "class_reliability": _draw_class_reliability},
        "regression": {"predictions": _draw_predictions},
    }
    drawings: dict[str, Callable[[PictureData], Any]] = {
        **drawings_by_task[data.holdout.task],
        **({"quantiles": _draw_quantiles} if data.shares_below else {}),
        **({"metrics": _draw_own_metrics} if data.own_metrics else {}),
        "reliability": _draw_reliability,
        "holdout_parts": _draw_holdout_parts,
    }
    return [save_figure(folder / f"{name}.png", draw(data)) for name, draw in drawings.items()]


def _draw_predictions(data: PictureData) -> Any:
    return draw_predictions(data.holdout)


def _draw_own_metrics(data: PictureData) -> Any:
    return draw_own_metrics(data.own_metrics)


def _draw_quantiles(data: PictureData) -> Any:
    return draw_quantiles(data.holdout, data.shares_below)


def _draw_classes(data: PictureData) -> Any:
    return draw_classes(data.holdout)


def _draw_class_reliability(data: PictureData) -> Any:
    return draw_class_reliability(data.holdout)


def _draw_curves(data: PictureData) -> Any:
    figure, (roc_axis, precision_axis) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    roc_axis.plot([0, 1], [0, 1], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    precision_axis.axhline(float(data.holdout.label.mean()), color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    models = [(data.champion, "champion", CHAMPION_COLOR), (data.candidate, "candidate", CANDIDATE_COLOR)]
    for curves, name, color in models:
        if curves is not None:
            _draw_band(roc_axis, curves.roc, name, color)
            _draw_band(precision_axis, curves.precision, name, color)
    roc_axis.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC")
    precision_axis.set(xlabel="recall", ylabel="precision", title="Precision-recall", ylim=(0, 1))
    roc_axis.legend(loc="lower right", frameon=False)
    return figure


def _draw_band(axis: Axes, band: Band, name: str, color: str) -> None:
    axis.fill_between(GRID, band.low, band.high, color=color, alpha=0.18, linewidth=0)
    axis.plot(GRID, band.value, color=color, label=f"{name}, 95 % band")


def _draw_reliability(data: PictureData) -> Any:
    figure, (calibration_axis, importance_axis) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    if data.holdout.task == "binary":
        _draw_calibrations(calibration_axis, data.holdout)
    elif data.holdout.task == "multiclass":
        draw_top_reliability_of_models(calibration_axis, data.holdout)
    else:
        draw_reliability_of_models(calibration_axis, data.holdout)
    names = list(data.importance)[:MAX_FEATURES][::-1]
    shares = list(data.importance.values())[:MAX_FEATURES][::-1]
    importance_axis.barh(names, shares, color=CANDIDATE_COLOR)
    importance_axis.tick_params(axis="y", labelsize=8)
    importance_axis.set(xlabel="share of the total gain", title="Feature importance")
    return figure


def _draw_calibrations(calibration_axis: Axes, holdout: Holdout) -> None:
    largest_value = 0.0
    scores = [
        (holdout.champion_score, "champion", CHAMPION_COLOR),
        (holdout.candidate_score, "candidate", CANDIDATE_COLOR),
    ]
    for score, name, color in scores:
        if score is not None:
            largest_value = max(largest_value, _draw_calibration(calibration_axis, holdout.label, score, name, color))
    calibration_axis.plot([0, largest_value], [0, largest_value], color=REFERENCE_COLOR, linestyle="--", linewidth=1)
    calibration_axis.set(xlabel="mean score of a tenth of the rows", ylabel="observed rate", title="Reliability")
    calibration_axis.legend(loc="upper left", frameon=False)


def _draw_calibration(axis: Axes, label: Array, score: Array, name: str, color: str) -> float:
    """Draw the calibration of a model; return the largest value that the axes should show."""
    bins = compute_calibration(label, score)
    axis.plot(bins["predicted"], bins["observed"], color=color, marker="o", markersize=4, label=name)
    return 1.05 * float(max(*bins["predicted"], *bins["observed"]))


def _draw_holdout_parts(data: PictureData) -> Any:
    """Draw a metric for each slice and each week of the holdout, and beside them a chart of errors.

    This chart is the confusion matrix of a binary model, the recalls of a multiclass model, or the errors by week of a
    regression.
    """
    figure, (slice_axis, week_axis, confusion_axis) = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    name = choose_part_metric(data.holdout, data.holdout.candidate_score).name
    slice_metric = name if data.holdout.champion_score is None else f"{name} minus the champion's"
    lowest_slices = data.slices.dropna(subset=["value"]).sort_values("value", ascending=False).tail(MAX_SLICES)
    _draw_intervals(slice_axis, lowest_slices, f"Slices: {slice_metric}")
    _draw_intervals(week_axis, data.weeks.dropna(subset=["value"]).iloc[::-1], f"Weeks of the holdout: {name}")
    if data.confusion:
        _draw_confusion(confusion_axis, data.confusion, data.threshold)
    elif data.holdout.task == "multiclass":
        draw_recalls(confusion_axis, data.holdout)
    else:
        draw_errors_by_week(confusion_axis, data.holdout)
    return figure


def _draw_intervals(axis: Axes, table: pd.DataFrame, title: str) -> None:
    """Draw each part with its interval, the first part at the bottom. A part that was not judged is grey."""
    axis.set_title(title)
    if table.empty:
        axis.text(0.5, 0.5, "none", ha="center", va="center", color=REFERENCE_COLOR, transform=axis.transAxes)
        axis.set_axis_off()
        return
    parts: list[dict[Any, Any]] = table.to_dict("records")
    for height, part in enumerate(parts):
        distances = [[part["value"] - part["low"]], [part["high"] - part["value"]]]
        color = CANDIDATE_COLOR if part["judged"] else REFERENCE_COLOR
        axis.errorbar([part["value"]], [height], xerr=distances, fmt="o", markersize=4, color=color, linewidth=1.2)
    axis.set_yticks(range(len(parts)), [f"{part['column']}={part['part']}"[:28] for part in parts], fontsize=8)
    axis.grid(axis="x", color="#eeeeee")


def _draw_confusion(axis: Axes, confusion: Mapping[str, int], threshold: float) -> None:
    cells = [[confusion["tn"], confusion["fp"]], [confusion["fn"], confusion["tp"]]]
    # The diagonal, the right predictions, is light blue: a quarter of the color scale.
    axis.imshow([[1, 0], [0, 1]], cmap="Blues", vmin=0, vmax=4)
    for row in (0, 1):
        for column in (0, 1):
            axis.text(column, row, f"{cells[row][column]:,}", ha="center", va="center")
    axis.set_xticks([0, 1], ["predicted 0", "predicted 1"])
    axis.set_yticks([0, 1], ["label 0", "label 1"])
    axis.set_title(f"Confusion at {threshold:.3f}")
