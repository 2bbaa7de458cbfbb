"""How good a model is on a holdout: numbers, the curves behind them, and figures of the curves."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    log_loss,
    precision_recall_curve,
    roc_auc_score,
)

from pipelines.errors import DataError

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

BINS = 10
CURVE_POINTS = 200
"""Points that a curve is thinned to: a plot needs no more, whatever the holdout's size."""
TOP = 20
"""Features that the importance plot shows."""

Array = np.ndarray[Any, Any]
Table = dict[str, list[Any]]


def metrics(label: Array, score: Array, base_rate_train: float) -> dict[str, float]:
    """The holdout metrics of a binary model.

    Args:
        label: shape (rows,), 0 or 1.
        score: shape (rows,), probability of 1.
        base_rate_train: share of 1 in the training rows: what a model without features would say.

    Returns:
        rows, base_rate, auc (area under ROC), pr_auc (average precision), log_loss (nats), brier, ece (expected
        calibration error over ten equal-mass bins, Naeini et al. 2015), baseline_log_loss and baseline_brier (of the
        constant base_rate_train).

    Raises:
        DataError: the labels are all the same, or a score is not a number: these metrics would say nothing.
    """
    if len(np.unique(label)) < 2:
        raise DataError(f"the {len(label)} rows of the holdout do not have both labels: nothing can be measured.")
    if not np.isfinite(score).all():
        raise DataError(f"the model's score is not a number for {int((~np.isfinite(score)).sum())} rows.")
    constant = np.full(len(label), base_rate_train)
    return {
        "rows": float(len(label)),
        "base_rate": float(label.mean()),
        "auc": float(roc_auc_score(label, score)),
        "pr_auc": float(average_precision_score(label, score)),
        "log_loss": float(log_loss(label, score)),
        "brier": float(brier_score_loss(label, score)),
        "ece": _ece(calibration(label, score)),
        "baseline_log_loss": float(log_loss(label, constant)),
        "baseline_brier": float(brier_score_loss(label, constant)),
    }


def calibration(label: Array, score: Array) -> Table:
    """Mean score and observed rate in ten bins of equal mass, lowest score first."""
    bins = np.array_split(np.argsort(score, kind="stable"), BINS)
    full = [members for members in bins if len(members)]
    return {
        "predicted": [float(score[members].mean()) for members in full],
        "observed": [float(label[members].mean()) for members in full],
        "rows": [len(members) for members in full],
    }


def precision_recall(label: Array, score: Array) -> Table:
    """The precision-recall curve, thinned to `CURVE_POINTS`."""
    precision, recall, _ = precision_recall_curve(label, score)
    kept = np.unique(np.linspace(0, len(recall) - 1, CURVE_POINTS).astype(int))
    return {"recall": recall[kept].tolist(), "precision": precision[kept].tolist()}


def importance(shares: Mapping[str, float]) -> Table:
    """The features' shares of the gain, largest first."""
    return {"feature": list(shares), "gain_share": list(shares.values())}


def _ece(bins: Table) -> float:
    weights = np.array(bins["rows"]) / sum(bins["rows"])
    return float(weights @ np.abs(np.array(bins["predicted"]) - np.array(bins["observed"])))


def write_tables(folder: Path, tables: Mapping[str, Table]) -> None:
    """`folder` holds each table as NAME.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))


def draw(path: Path, tables: Mapping[str, Table], told: Mapping[str, float], title: str) -> None:
    """`path` is a PNG of the precision-recall curve, the calibration and the importances."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    _draw_precision_recall(axes[0], tables["pr_curve"], told)
    _draw_calibration(axes[1], tables["calibration"], told)
    _draw_importance(axes[2], tables["importance"])
    figure.suptitle(title, fontsize=11)
    # No date or version inside: equal curves give equal bytes.
    figure.savefig(path, dpi=96, metadata={"Software": None})
    plt.close(figure)


def _draw_precision_recall(axis: Axes, curve: Table, told: Mapping[str, float]) -> None:
    axis.plot(curve["recall"], curve["precision"], color="#1f5fa8", label=f"model: PR-AUC {told['pr_auc']:.3f}")
    axis.axhline(told["base_rate"], color="#999999", linestyle="--", label=f"chance: {told['base_rate']:.3f}")
    axis.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1), title=f"ROC AUC {told['auc']:.3f}")
    axis.legend(loc="upper right", frameon=False)


def _draw_calibration(axis: Axes, bins: Table, told: Mapping[str, float]) -> None:
    top = 1.1 * max(*bins["predicted"], *bins["observed"])
    axis.plot([0, top], [0, top], color="#999999", linestyle="--", label="perfect")
    axis.plot(bins["predicted"], bins["observed"], color="#1f5fa8", marker="o", label="model, tenths of the rows")
    axis.set(xlabel="mean score", ylabel="observed rate", xlim=(0, top), ylim=(0, top), title=f"ECE {told['ece']:.3f}")
    axis.legend(loc="upper left", frameon=False)


def _draw_importance(axis: Axes, shares: Table) -> None:
    names, values = shares["feature"][:TOP][::-1], shares["gain_share"][:TOP][::-1]
    axis.barh(names, values, color="#1f5fa8")
    axis.tick_params(axis="y", labelsize=8)
    axis.set(xlabel="share of the total gain", title="feature importance")
