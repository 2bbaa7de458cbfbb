"""The area under the ROC curve with its analytic interval, and the difference of two models on the same rows.

DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44: the AUC is a mean of placements (the share of the other label's
rows that a row is ranked on the right side of, ties a half), and the variance of placements gives its own. Placements
from midranks in O(n log n): Sun & Xu (2014), IEEE Signal Processing Letters 21.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import rankdata

from pipelines.errors import DataError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, labelled, level


def auc(label: Array, score: Array, alpha: float) -> Estimate:
    """The AUC of a score; ties count a half.

    Perfect separation has variance 0: the interval is then the value alone, and says too much of few rows.

    Raises:
        DataError: see `labelled`; or a label has one row only, so that nothing varies.
    """
    truth, (values,) = labelled(label, score)
    above, below = _placements(truth, values)
    return Estimate.normal(float(above.mean()), _se(above, below), len(truth), level(alpha), 0.0, 1.0)


def paired(label: Array, candidate: Array, champion: Array, alpha: float) -> Estimate:
    """The AUC of the candidate less the champion's, on the same rows.

    The covariance of the two is in it: the variance is that of the differences of placements. Scores that rank the
    rows alike differ by 0, with standard error 0.

    Raises:
        DataError: see `auc`.
    """
    truth, scores = labelled(label, candidate, champion)
    (above, below), (above_other, below_other) = (_placements(truth, score) for score in scores)
    value = float(above.mean() - above_other.mean())
    se = _se(above - above_other, below - below_other)
    return Estimate.normal(value, se, len(truth), level(alpha), -1.0, 1.0)


def _placements(label: Array, score: Array) -> tuple[Array, Array]:
    """Of each row of label 1 the share of the others below it; of each row of label 0 the share of the others above."""
    ranks, ones, zeros = rankdata(score), score[label], score[~label]
    above = (ranks[label] - rankdata(ones)) / len(zeros)
    below = 1 - (ranks[~label] - rankdata(zeros)) / len(ones)
    return above, below


def _se(above: Array, below: Array) -> float:
    if min(len(above), len(below)) < 2:
        raise DataError("a label has one row only: how far the AUC varies cannot be told.")
    return math.sqrt(np.var(above, ddof=1) / len(above) + np.var(below, ddof=1) / len(below))
