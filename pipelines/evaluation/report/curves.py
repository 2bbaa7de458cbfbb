"""Compute ROC and precision-recall curves with bootstrap bands.

The rows are counted once, by bins of the score. Each draw of the bootstrap uses only these counts, so the cost of a
draw does not depend on the number of rows. If there are groups, whole groups are drawn (the cluster bootstrap). If not,
the count of each bin and label is drawn from a Poisson distribution (the Poisson bootstrap; Chamandy et al. 2012,
Estimating uncertainty for massive data streams, Google).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BINS = 400
"""Largest number of bins. Each has about the same number of rows."""
DRAWS = 300
"""Number of draws of the bootstrap."""
SEED = 13
"""Seed of the draws."""
GRID = np.linspace(0.0, 1.0, 201)
"""False positive rates and recalls at which curves and bands are computed."""
BAND_PERCENTILES = (2.5, 97.5)
"""Percentiles of the draws at which a band begins and ends."""


@dataclass(frozen=True)
class Band:
    """A curve on `GRID` (`value`), and the ends of its band (`low`, `high`); each of shape (201,)."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Curves:
    """The curves of a score."""

    roc: Band
    """True positive rate by false positive rate."""
    precision: Band
    """Precision by recall."""


def compute_curves(label: Array, score: Array, groups: Array | None = None) -> Curves:
    """Compute the curves of a score, with bands.

    Args:
        label: shape (rows,), 0 or 1; both values occur.
        score: shape (rows,).
        groups: shape (rows,); rows with the same value are drawn together. None: rows are drawn independently.
    """
    counts = _count_rows(label, score, groups)
    values = _compute_on_grid(counts.sum(axis=0, keepdims=True))
    draws = _compute_on_grid(_resample(counts, has_groups=groups is not None))
    return Curves(*(_make_band(value[0], samples) for value, samples in zip(values, draws, strict=True)))


def compute_confusion(label: Array, score: Array, threshold: float) -> dict[str, int]:
    """Count the rows by label and by prediction at the threshold: tp, fp, fn, tn."""
    is_predicted_positive, is_positive = score >= threshold, label == 1
    return {
        "tp": int((is_predicted_positive & is_positive).sum()),
        "fp": int((is_predicted_positive & ~is_positive).sum()),
        "fn": int((~is_predicted_positive & is_positive).sum()),
        "tn": int((~is_predicted_positive & ~is_positive).sum()),
    }


def _count_rows(label: Array, score: Array, groups: Array | None) -> Array:
    """Count rows by group, bin and label, highest scores first; shape (groups, bins, 2). Equal scores share a bin."""
    edges = np.unique(np.quantile(score, np.linspace(0, 1, BINS + 1)[1:-1]))
    bin_number = len(edges) - np.searchsorted(edges, score, side="right")
    group = np.zeros(len(label), dtype=int) if groups is None else np.unique(groups, return_inverse=True)[1]
    cell = (group * (len(edges) + 1) + bin_number) * 2 + (label == 1)
    shape = (int(group.max()) + 1, len(edges) + 1, 2)
    counts: Array = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    return counts


def _resample(counts: Array, *, has_groups: bool) -> Array:
    """Draw samples of the counts; shape (draws, bins, 2)."""
    random = np.random.default_rng(SEED)
    if not has_groups:
        return random.poisson(counts[0], size=(DRAWS, *counts.shape[1:])).astype(float)
    weights = random.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=DRAWS)
    draws: Array = np.einsum("dg,gbl->dbl", weights, counts)
    return draws


def _compute_on_grid(counts: Array) -> tuple[Array, Array]:
    """Compute ROC and precision on `GRID`, each of shape (draws, 201), from counts of shape (draws, bins, 2).

    Draws without one of the labels are left out.
    """
    negatives, positives = (np.cumsum(counts[:, :, label], axis=1) for label in (0, 1))
    has_both_labels = (positives[:, -1] > 0) & (negatives[:, -1] > 0)
    roc, precision = [], []
    for all_fp, all_tp in zip(negatives[has_both_labels], positives[has_both_labels], strict=True):
        has_rows = all_fp + all_tp > 0  # a draw may leave the first bins empty; they have no precision
        fp, tp = all_fp[has_rows], all_tp[has_rows]
        recall = np.concatenate([[0.0], tp / tp[-1]])
        roc.append(np.interp(GRID, np.concatenate([[0.0], fp / fp[-1]]), recall))
        bin_precision = tp / (tp + fp)
        precision.append(np.interp(GRID, recall, np.concatenate([bin_precision[:1], bin_precision])))
    return np.array(roc), np.array(precision)


def _make_band(value: Array, draws: Array) -> Band:
    low, high = np.percentile(draws, BAND_PERCENTILES, axis=0)
    return Band(value, low, high)
