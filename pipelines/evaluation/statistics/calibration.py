"""Estimate the expected calibration error (ECE) with an interval, without the bias of the plain ECE.

The plain ECE sums the sizes of the bins' gaps between score and label. Chance alone gives each bin a gap, so the sum is
too large, the more the fewer rows or days there are. The estimate is less by the bias that normal errors would cause
(Kumar, Liang & Ma 2019, NeurIPS, section 5). The true ECE is the sum of the true gaps with their true signs. So the
upper end is the largest of the upper ends of all sums with signs: it is too low no more often than that of the true
signs.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import ndtr

from pipelines.evaluation.statistics import groups as by_groups
from pipelines.evaluation.statistics.estimate import Estimate, compute_quantile
from pipelines.evaluation.statistics.inputs import Array, validate_alpha, validate_probabilities, validate_rows
from pipelines.evaluation.statistics.weighted import split_into_bins


def estimate_ece(label: Array, score: Array, *, alpha: float, groups: Array | None = None) -> Estimate:
    """Estimate the ECE over ten bins of equal mass (Naeini et al. 2015), which stay fixed.

    Args:
        label: shape (rows,), 0 or 1, both present.
        score: shape (rows,), a probability.
        alpha: error probability of each end of the interval; see `Estimate`.
        groups: shape (rows,), rows of equal value are related (such as those of a day).

    Raises:
        DataError: the rows are not valid, or there are fewer than two groups. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, (values,) = validate_rows(label, score)
    alpha, rows = validate_alpha(alpha), len(truth)
    bins = split_into_bins(validate_probabilities(values))
    gap = values - truth
    gaps = np.array([gap[members].sum() for members in bins]) / rows
    if groups is None:
        group_count, freedom = None, math.inf
        errors = np.diag([np.linalg.norm(gap[members] - gap[members].mean()) / rows for members in bins])
    else:
        numbers = by_groups.number_groups(groups, rows)
        group_count = int(numbers.max()) + 1
        freedom = by_groups.count_coefficients(group_count)
        errors = by_groups.compute_errors(_compute_pseudo_values(gap, bins, numbers, group_count))
    plain = float(np.abs(gaps).sum())
    # The ECE is the sum of the gaps with their signs, so its error is that sum of their errors.
    se = float(np.linalg.norm(errors @ np.where(gaps < 0, -1.0, 1.0)))
    value = max(plain - _compute_bias(gaps, np.linalg.norm(errors, axis=0)), 0.0)
    quantile = compute_quantile(alpha, freedom)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(bins))))
    high = float((signs @ gaps + quantile * np.linalg.norm(errors @ signs.T, axis=0)).max())
    return Estimate(value, max(value - quantile * se, 0.0), min(high, 1.0), se, rows, group_count, freedom)


def _compute_pseudo_values(gap: Array, bins: list[Array], groups: Array, group_count: int) -> Array:
    """Compute the pseudo-values of each bin's gap as a share of all rows; shape (groups, bins)."""
    sums = np.stack([np.bincount(groups[members], gap[members], group_count) for members in bins], axis=1)
    rows = np.bincount(groups, minlength=group_count)[:, np.newaxis]
    without_group = (sums.sum(axis=0) - sums) / (rows.sum() - rows)
    return by_groups.compute_pseudo_values(np.vstack([sums.sum(axis=0) / rows.sum(), without_group]))


def _compute_bias(gaps: Array, se: Array) -> float:
    """Compute how much larger the sizes of normal gaps are on average than those of their means (folded normal)."""
    size, scale = np.abs(gaps), np.where(se > 0, se, 1.0)
    ratio = size / scale
    mean = scale * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + size * (1 - 2 * ndtr(-ratio))
    return float(np.where(se > 0, mean - size, 0.0).sum())
