"""Estimate the area under the ROC curve, and its difference between two models, with analytic intervals.

DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44. A row's placement is the share of rows with the other label that
it is ranked on the right side of, ties counting a half. The AUC is the mean placement, and the variance of the
placements gives that of the AUC. Placements are computed from midranks in O(n log n): Sun & Xu (2014), IEEE Signal
Processing Letters 21.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import rankdata

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, validate_alpha, validate_rows


def estimate_auc(label: Array, score: Array, alpha: float) -> Estimate:
    """Estimate the AUC of a score; ties count a half.

    If the score separates the labels perfectly, the variance is 0 and the interval is the value alone, which is too
    confident for few rows.

    Args:
        label: shape (rows,), 0 or 1, both present.
        score: shape (rows,), finite.
        alpha: of each end of the interval; see `Estimate`.

    Raises:
        DataError: the rows are not valid, or a label has one row only. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, (values,) = validate_rows(label, score)
    above, below = _compute_placements(truth, values)
    se = _compute_standard_error(above, below)
    return Estimate.normal(float(above.mean()), se, len(truth), validate_alpha(alpha), 0.0, 1.0)


def estimate_auc_difference(label: Array, candidate: Array, champion: Array, alpha: float) -> Estimate:
    """Estimate the candidate's AUC less the champion's, on the same rows.

    The variance is that of the differences of placements, and so accounts for the covariance of the two AUCs. Scores
    that rank the rows alike differ by 0, with standard error 0.

    Args:
        label: shape (rows,), 0 or 1, both present.
        candidate: shape (rows,), finite scores.
        champion: shape (rows,), finite scores.
        alpha: of each end of the interval; see `Estimate`.

    Raises:
        DataError: the rows are not valid, or a label has one row only. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, scores = validate_rows(label, candidate, champion)
    (above, below), (above_champion, below_champion) = (_compute_placements(truth, score) for score in scores)
    value = float(above.mean() - above_champion.mean())
    se = _compute_standard_error(above - above_champion, below - below_champion)
    return Estimate.normal(value, se, len(truth), validate_alpha(alpha), -1.0, 1.0)


def _compute_placements(label: Array, score: Array) -> tuple[Array, Array]:
    """Compute for each row of label 1 the share of 0s below it, for each row of label 0 the share of 1s above it."""
    ranks, ones, zeros = rankdata(score), score[label], score[~label]
    above = (ranks[label] - rankdata(ones)) / len(zeros)
    below = 1 - (ranks[~label] - rankdata(zeros)) / len(ones)
    return above, below


def _compute_standard_error(above: Array, below: Array) -> float:
    if min(len(above), len(below)) < 2:
        raise DataError("a label has one row only: the variance of the AUC cannot be estimated.")
    return math.sqrt(np.var(above, ddof=1) / len(above) + np.var(below, ddof=1) / len(below))
