"""Estimate the area under the ROC curve, and its difference between two models, with analytic intervals.

DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44. A row's placement is a share of the rows with the other label:
for a row of label 1, those with a lower score; for a row of label 0, those with a higher score. A tie counts one half.
The AUC is the mean placement, and its variance follows from the variance of the placements. Placements are computed
from midranks in O(n log n): Sun & Xu (2014), IEEE Signal Processing Letters 21.

If the scores separate the labels completely, DeLong's variance is 0. With few rows of a label, this variance is too
small. In both cases, the interval is computed as if only as many pairs were compared as the rarer label has rows, each
row in one pair: see `edges`. This interval is wider than needed, because all pairs together contain more information.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from pipelines.evaluation.statistics import edges
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, validate_alpha, validate_rows


def estimate_auc(label: Array, score: Array, alpha: float) -> Estimate:
    """Estimate the AUC of a score; a tie counts one half.

    The interval is the exact one if a label has fewer than 30 rows, if DeLong's variance is 0, or if DeLong's interval
    would reach 0 or 1.

    Args:
        label: shape (rows,), 0 or 1, both present.
        score: shape (rows,), finite.
        alpha: error probability of each end of the interval; see `Estimate`.

    Raises:
        DataError: the rows are not valid. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, (values,) = validate_rows(label, score)
    ones, zeros = _compute_placements(truth, values)
    value, se, pair_count = float(ones.mean()), _compute_standard_error(ones, zeros), min(len(ones), len(zeros))
    estimate = Estimate.from_standard_error(value, se, len(truth), validate_alpha(alpha), 0.0, 1.0)
    if pair_count >= edges.MIN_LABEL_ROWS and estimate.low > 0 and estimate.high < 1 and se > 0:
        return estimate
    low, high = edges.bound_share(value, pair_count, alpha)
    return replace(estimate, low=low, high=high)


def estimate_auc_difference(label: Array, candidate: Array, champion: Array, alpha: float) -> Estimate:
    """Estimate the candidate's AUC minus the champion's, on the same rows.

    The variance is that of the differences of placements, so it includes the covariance of the two AUCs. If the
    scores of both models are equal, the difference and both ends of the interval are exactly 0. Otherwise, the interval
    is DeLong's, or the exact one if a label has fewer than 30 rows or the variance is 0.

    Args:
        label: shape (rows,), 0 or 1, both present.
        candidate: shape (rows,), finite scores.
        champion: shape (rows,), finite scores.
        alpha: error probability of each end of the interval; see `Estimate`.

    Raises:
        DataError: the rows are not valid. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, scores = validate_rows(label, candidate, champion)
    (ones, zeros), (champion_ones, champion_zeros) = (_compute_placements(truth, score) for score in scores)
    aucs, pair_count = (float(ones.mean()), float(champion_ones.mean())), min(len(ones), len(zeros))
    are_equal = np.array_equal(scores[0], scores[1])
    se = 0.0 if are_equal else _compute_standard_error(ones - champion_ones, zeros - champion_zeros)
    estimate = Estimate.from_standard_error(aucs[0] - aucs[1], se, len(truth), validate_alpha(alpha), -1.0, 1.0)
    if are_equal or (pair_count >= edges.MIN_LABEL_ROWS and se > 0):
        return estimate
    low, high = edges.bound_difference(aucs, pair_count, alpha)
    return replace(estimate, low=low, high=high)


def _compute_placements(label: Array, score: Array) -> tuple[Array, Array]:
    """Compute the placements of the rows of label 1, and those of the rows of label 0."""
    ranks, one_scores, zero_scores = rankdata(score), score[label], score[~label]
    ones = (ranks[label] - rankdata(one_scores)) / len(zero_scores)
    zeros = 1 - (ranks[~label] - rankdata(zero_scores)) / len(one_scores)
    return ones, zeros


def _compute_standard_error(ones: Array, zeros: Array) -> float:
    """Compute the standard error of the mean placement of both labels; infinite if a label has one row."""
    if min(len(ones), len(zeros)) < 2:
        return math.inf
    return math.sqrt(np.var(ones, ddof=1) / len(ones) + np.var(zeros, ddof=1) / len(zeros))
