"""Measure a regression on a holdout: compute its metrics and tables, and draw the figure of the evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.errors import DataError
from pipelines.evaluation.figure import MODEL_COLOR, draw_importance
from pipelines.evaluation.metrics import compute_calibration
from pipelines.evaluation.statistics.weighted import REGRESSION_METRICS, compute_metric, list_metrics, split_into_bins
from pipelines.evaluation.tables import Table
from pipelines.evaluation.weeks import find_weeks
from pipelines.pages.drawing import REFERENCE_COLOR, Axes, plt, save_figure

RESIDUAL_QUANTILES = (0.1, 0.5, 0.9)
"""Quantiles of the residuals in each bin."""

Array = np.ndarray[Any, Any]


def compute_regression_metrics(
    label: Array, score: Array, mean_train: float, quantiles: Mapping[str, Array]
) -> dict[str, float]:
    """Compute the holdout metrics of a regression.

    Args:
        label: shape (rows,).
        score: shape (rows,), the predicted numbers.
        mean_train: mean label of the training rows, which a model without features predicts for every row.
        quantiles: predicted quantiles by their names, each of shape (rows,); empty if the model predicts none.

    Returns:
        rows, label_mean, label_std, rmse, mae, median_ae (median absolute error), r2, bias (mean of score minus label),
        baseline_rmse and baseline_mae (of the constant mean_train), and the metrics of the quantiles. Errors have the
        unit of the label.

    Raises:
        DataError: all labels are equal, or a label or a score is not a finite number. A retry cannot help.
    """
    constant_score = np.full(len(label), mean_train)
    metrics = {name: compute_metric(label, score, name) for name in REGRESSION_METRICS}
    baselines = {f"baseline_{name}": compute_metric(label, constant_score, name) for name in ("rmse", "mae")}
    description = {"rows": len(label), "label_mean": label.mean(), "label_std": label.std()}
    all_metrics = list_metrics("regression", quantiles=tuple(quantiles))
    for name, metric in all_metrics.items():
        if metric.quantiles:
            predictions = np.column_stack([quantiles[quantile] for quantile in metric.quantiles])
            metrics[name] = compute_metric(label, predictions, metric)
    return {**{name: float(value) for name, value in description.items()}, **metrics, **baselines}


def tabulate_residuals(label: Array, score: Array) -> Table:
    """Split the rows by score into ten bins of equal size, and tabulate the bins, lowest scores first.

    Returns:
        The columns of `compute_calibration`, and low, middle and high: quantiles 0.1, 0.5 and 0.9 of label minus score.
    """
    quantiles = np.array(
        [np.quantile(label[rows] - score[rows], RESIDUAL_QUANTILES) for rows in split_into_bins(score)]
    )
    names = ("low", "middle", "high")
    return {**compute_calibration(label, score), **dict(zip(names, quantiles.T.tolist(), strict=True))}


def tabulate_quantiles(label: Array, quantiles: Mapping[str, Array]) -> Table:
    """Tabulate the share of labels at or below each quantile: columns quantile, observed and rows."""
    return {
        "quantile": [float(name) for name in quantiles],
        "observed": [float((label <= values).mean()) for values in quantiles.values()],
        "rows": [len(label)] * len(quantiles),
    }


def tabulate_weeks(label: Array, score: Array, days: pd.Series[Any]) -> Table:
    """Tabulate the errors by week; weeks of seven days are counted from the first day.

    Returns:
        The columns week (its first day), mae, bias and rows.
    """
    errors = pd.DataFrame({"week": find_weeks(days).to_numpy(), "error": score - label})
    grouped_errors = errors.groupby("week")["error"]
    return {
        "week": sorted(errors["week"].unique()),
        "mae": grouped_errors.apply(lambda values: float(values.abs().mean())).tolist(),
        "bias": grouped_errors.mean().tolist(),
        "rows": grouped_errors.size().tolist(),
    }


def draw_regression(path: Path, tables: Mapping[str, Table], metrics: Mapping[str, float], title: str) -> None:
    """Draw reliability, residuals and feature importance to a PNG file. Equal tables give byte-identical files.

    Args:
        path: file to write.
        tables: residuals and importance.
        metrics: metrics of the same holdout.
        title: title of the figure.

    Raises:
        DataError: there are no residuals. A retry cannot help.
    """
    if not tables["residuals"]["rows"]:
        raise DataError("there are no rows to draw.")
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    draw_reliability(axes[0], tables["residuals"], "model (a point: a tenth of the rows)", MODEL_COLOR)
    axes[0].set(title=f"R2 {metrics['r2']:.3f}, RMSE {metrics['rmse']:.4g}")
    draw_residuals(axes[1], tables["residuals"], MODEL_COLOR)
    axes[1].set(title=f"MAE {metrics['mae']:.4g}, bias {metrics['bias']:.3g}")
    draw_importance(axes[2], tables["importance"])
    figure.suptitle(title, fontsize=11)
    save_figure(path, figure, dpi=96)


def draw_reliability(axis: Axes, bins: Table, name: str, color: str) -> None:
    """Draw the reliability: the mean label of each bin by its mean score, and the line on which both are equal."""
    values = [*bins["predicted"], *bins["observed"]]
    axis.plot([min(values), max(values)], [min(values), max(values)], color=REFERENCE_COLOR, linestyle="--")
    axis.plot(bins["predicted"], bins["observed"], color=color, marker="o", markersize=4, label=name)
    axis.set(xlabel="mean predicted value", ylabel="mean observed value")
    axis.legend(loc="upper left", frameon=False)


def draw_residuals(axis: Axes, bins: Table, color: str) -> None:
    """Draw the median residual of each bin, with the band that holds 80 % of the residuals."""
    axis.axhline(0.0, color=REFERENCE_COLOR, linestyle="--")
    axis.fill_between(bins["predicted"], bins["low"], bins["high"], color=color, alpha=0.18, linewidth=0)
    axis.plot(bins["predicted"], bins["middle"], color=color, marker="o", markersize=4, label="median, 80 % band")
    axis.set(xlabel="mean predicted value", ylabel="observed minus predicted")
    axis.legend(loc="upper left", frameon=False)
