"""Compute the concordance: how well a score orders the rows by a numeric label."""

from __future__ import annotations

import numpy as np
from scipy.stats import kendalltau

from pipelines.evaluation.statistics.inputs import Array


def compute_concordance(label: Array, score: Array) -> float:
    """Compute the share of the pairs of rows with different labels whose scores are in the right order.

    A pair of equal scores counts one half. For labels 0 and 1, this is the AUC. The number of pairs is not limited: the
    time grows with rows * log(rows) (Knight 1966, Journal of the American Statistical Association 61).

    Args:
        label: shape (rows,), finite, not all equal.
        score: shape (rows,), without NaN.
    """
    # Pairs of rows: all, those with different labels, and those with different scores.
    pairs = len(label) * (len(label) - 1) / 2
    label_pairs, score_pairs = (pairs - _count_equal_pairs(values) for values in (label, score))
    if not score_pairs:
        return 0.5
    # tau-b is the number of right pairs minus that of wrong ones, divided by the geometric mean of `label_pairs` and
    # `score_pairs`.
    # The difference is a whole number, so a perfect order gives 1 and not 1 - 1e-16.
    difference = np.rint(kendalltau(label, score).statistic * np.sqrt(label_pairs * score_pairs))
    return float(0.5 + difference / label_pairs / 2)


def _count_equal_pairs(values: Array) -> float:
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())
