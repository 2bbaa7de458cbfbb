"""ROC and precision-recall curves with the bands that the rows leave to them.

Scores are sorted out into bins once; a draw of the bootstrap is then a weighted sum of bins, so it costs the same for
a thousand rows and for a million. Drawn are whole groups where there are any, else rows (a Poisson bootstrap of each
bin: Chamandy et al. 2012, Google technical report).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BINS = 400
"""Of equal mass: what a curve is drawn with."""
DRAWS = 300
SEED = 13
GRID = np.linspace(0.0, 1.0, 201)
"""Where the bands are told: false positive rates, and recalls."""
LEVEL = (2.5, 97.5)
"""Percentiles of the bands."""


@dataclass(frozen=True)
class Band:
    """A curve on `GRID`, with its band; each of shape (201,)."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Curves:
    """What a score's threshold trades."""

    roc: Band
    """True positive rate by false positive rate."""
    precision: Band
    """Precision by recall."""


def curves(label: Array, score: Array, groups: Array | None = None) -> Curves:
    """The curves of a score.

    Args:
        label: shape (rows,), 0 or 1, both there.
        score: shape (rows,).
        groups: shape (rows,), what is drawn as a whole; None: rows.
    """
    counts = _binned(label, score, groups)
    whole = _of(counts.sum(axis=0, keepdims=True))
    drawn = _of(_drawn(counts, grouped=groups is not None))
    return Curves(*(_band(one[0], many) for one, many in zip(whole, drawn, strict=True)))


def confusion(label: Array, score: Array, threshold: float) -> dict[str, int]:
    """Rows by what they are and what the threshold makes of them: tp, fp, fn, tn."""
    said, true = score >= threshold, label == 1
    return {
        "tp": int((said & true).sum()),
        "fp": int((said & ~true).sum()),
        "fn": int((~said & true).sum()),
        "tn": int((~said & ~true).sum()),
    }


def _binned(label: Array, score: Array, groups: Array | None) -> Array:
    """Rows by group, bin and label, highest scores first; shape (groups, bins, 2). Equal scores share a bin."""
    edges = np.unique(np.quantile(score, np.linspace(0, 1, BINS + 1)[1:-1]))
    place = len(edges) - np.searchsorted(edges, score, side="right")
    group = np.zeros(len(label), dtype=int) if groups is None else np.unique(groups, return_inverse=True)[1]
    cell = (group * (len(edges) + 1) + place) * 2 + (label == 1)
    shape = (int(group.max()) + 1, len(edges) + 1, 2)
    counts: Array = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    return counts


def _drawn(counts: Array, *, grouped: bool) -> Array:
    """Rows by draw, bin and label."""
    random = np.random.default_rng(SEED)
    if not grouped:
        return random.poisson(counts[0], size=(DRAWS, *counts.shape[1:])).astype(float)
    weights = random.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=DRAWS)
    drawn: Array = np.einsum("dg,gbl->dbl", weights, counts)
    return drawn


def _of(counts: Array) -> tuple[Array, Array]:
    """ROC and precision on `GRID` of each draw; shape (draws, 201)."""
    negatives, positives = (np.cumsum(counts[:, :, one], axis=1) for one in (0, 1))
    some = (positives[:, -1] > 0) & (negatives[:, -1] > 0)
    roc, precision = [], []
    for fp, tp in zip(negatives[some], positives[some], strict=True):
        recall = np.concatenate([[0.0], tp / tp[-1]])
        roc.append(np.interp(GRID, np.concatenate([[0.0], fp / fp[-1]]), recall))
        share = tp / np.maximum(tp + fp, 1.0)
        precision.append(np.interp(GRID, recall, np.concatenate([share[:1], share])))
    return np.array(roc), np.array(precision)


def _band(value: Array, drawn: Array) -> Band:
    low, high = np.percentile(drawn, LEVEL, axis=0)
    return Band(value, low, high)
