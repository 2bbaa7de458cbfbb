"""Draw the figure of the evaluation of a binary model. Equal tables give byte-identical files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.evaluation.tables import Table
from pipelines.pages.drawing import REFERENCE_COLOR, Axes, plt, save_figure

MAX_FEATURES = 20
"""Largest number of features that the importance plot shows."""
MODEL_COLOR = "#1f5fa8"
"""Color of the evaluated model."""


def draw_evaluation(path: Path, tables: Mapping[str, Table], metrics: Mapping[str, float], title: str) -> None:
    """Draw the precision-recall curve, the calibration and the feature importance to a PNG file.

    Args:
        path: file to write.
        tables: pr_curve, calibration and importance, as `pipelines.evaluation.metrics` computes them.
        metrics: metrics of the same holdout.
        title: title of the figure.
    """
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    _draw_precision_recall(axes[0], tables["pr_curve"], metrics)
    _draw_calibration(axes[1], tables["calibration"], metrics)
    draw_importance(axes[2], tables["importance"])
    figure.suptitle(title, fontsize=11)
    save_figure(path, figure, dpi=96)


def _draw_precision_recall(axis: Axes, curve: Table, metrics: Mapping[str, float]) -> None:
    model_label, chance_label = f"model: PR-AUC {metrics['pr_auc']:.3f}", f"chance: {metrics['base_rate']:.3f}"
    axis.plot(curve["recall"], curve["precision"], color=MODEL_COLOR, label=model_label)
    axis.axhline(metrics["base_rate"], color=REFERENCE_COLOR, linestyle="--", label=chance_label)
    axis.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1), title=f"ROC AUC {metrics['auc']:.3f}")
    axis.legend(loc="upper right", frameon=False)


def _draw_calibration(axis: Axes, bins: Table, metrics: Mapping[str, float]) -> None:
    top = 1.1 * max(*bins["predicted"], *bins["observed"])
    axis.plot([0, top], [0, top], color=REFERENCE_COLOR, linestyle="--", label="perfect")
    axis.plot(bins["predicted"], bins["observed"], color=MODEL_COLOR, marker="o", label="model, deciles of the rows")
    title = f"ECE {metrics['ece']:.3f}"
    axis.set(xlabel="mean score", ylabel="observed rate", xlim=(0, top), ylim=(0, top), title=title)
    axis.legend(loc="upper left", frameon=False)


def draw_importance(axis: Axes, importance: Table) -> None:
    """Draw each feature's share of the total gain, largest at the top."""
    names = importance["feature"][:MAX_FEATURES][::-1]
    shares = importance["gain_share"][:MAX_FEATURES][::-1]
    axis.barh(names, shares, color=MODEL_COLOR)
    axis.tick_params(axis="y", labelsize=8)
    axis.set(xlabel="share of the total gain", title="feature importance")
