"""Measure a binary model on a holdout: compute its metrics, and the tables from which its curves are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    log_loss,
    precision_recall_curve,
    roc_auc_score,
)

from pipelines.errors import DataError
from pipelines.evaluation.statistics.weighted import split_into_bins
from pipelines.evaluation.tables import Table

CURVE_POINTS = 200
"""Largest number of points of a stored curve. A plot needs no more, even if the holdout has many rows."""

Array = np.ndarray[Any, Any]


def compute_metrics(label: Array, score: Array, base_rate_train: float) -> dict[str, float]:
    """Compute the holdout metrics of a binary model.

    Args:
        label: shape (rows,), 0 or 1.
        score: shape (rows,), probability of 1.
        base_rate_train: share of 1 in the training rows, which a model without features predicts for every row.

    Returns:
        rows, base_rate (share of 1 in the holdout), auc (area under ROC), pr_auc (average precision), log_loss (nats),
        brier, ece (expected calibration error over ten bins with equally many rows, Naeini et al. 2015),
        baseline_log_loss and baseline_brier (of the constant score base_rate_train).

    Raises:
        DataError: all labels are equal, or a score is not a finite number. A retry cannot help.
    """
    if len(np.unique(label)) < 2:
        raise DataError(f"the {len(label)} rows of the holdout do not have both labels: nothing can be measured.")
    if not np.isfinite(score).all():
        invalid_rows = int((~np.isfinite(score)).sum())
        raise DataError(f"the model's score is not a finite number for {invalid_rows} rows.")
    constant_score = np.full(len(label), base_rate_train)
    return {
        "rows": float(len(label)),
        "base_rate": float(label.mean()),
        "auc": float(roc_auc_score(label, score)),
        "pr_auc": float(average_precision_score(label, score)),
        "log_loss": float(log_loss(label, score)),
        "brier": float(brier_score_loss(label, score)),
        "ece": _compute_ece(compute_calibration(label, score)),
        "baseline_log_loss": float(log_loss(label, constant_score)),
        "baseline_brier": float(brier_score_loss(label, constant_score)),
    }


def compute_calibration(label: Array, score: Array) -> Table:
    """Compute mean score and observed rate in ten bins with equally many rows, lowest scores first.

    Returns:
        The columns predicted, observed and rows.
    """
    bins = split_into_bins(score)
    return {
        "predicted": [float(score[rows].mean()) for rows in bins],
        "observed": [float(label[rows].mean()) for rows in bins],
        "rows": [len(rows) for rows in bins],
    }


def compute_precision_recall(label: Array, score: Array) -> Table:
    """Compute at most `CURVE_POINTS` points of the precision-recall curve; columns recall and precision."""
    precision, recall, _ = precision_recall_curve(label, score)
    points = np.unique(np.linspace(0, len(recall) - 1, CURVE_POINTS).astype(int))
    return {"recall": recall[points].tolist(), "precision": precision[points].tolist()}


def tabulate_importance(shares: Mapping[str, float]) -> Table:
    """Return a table of the features and their shares of the gain, in the order of the mapping.

    Returns:
        The columns feature and gain_share.
    """
    return {"feature": list(shares), "gain_share": list(shares.values())}


def _compute_ece(bins: Table) -> float:
    weights = np.array(bins["rows"]) / sum(bins["rows"])
    return float(weights @ np.abs(np.array(bins["predicted"]) - np.array(bins["observed"])))
