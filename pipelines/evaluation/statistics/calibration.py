"""Estimate the expected calibration error (ECE) with an interval, without the bias of the plain ECE.

The plain ECE is the sum of the absolute values of the bins' gaps between score and label. Chance alone gives each bin a
gap, so the sum is too large. This bias is larger with fewer rows or days. The estimate is the plain ECE minus the bias
that normally distributed errors would cause (Kumar, Liang & Ma 2019, NeurIPS, section 5).

The true ECE is the sum of the true gaps, each times its sign. The true signs are not known, so the upper end of the
interval is the largest upper end over all combinations of signs. One combination has the true signs. So the probability
that the true ECE is above the interval is not larger than for known signs.
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
    """Estimate the ECE over ten bins of equally many rows (Naeini et al. 2015). The interval treats the bins as fixed.

    Args:
        label: shape (rows,), 0 or 1, both present.
        score: shape (rows,), a probability.
        alpha: error probability of each end of the interval; see `Estimate`.
        groups: shape (rows,). Rows with the same value are related, such as those of a day; the values are ordered by
            time. None: rows are independent.

    Raises:
        DataError: the rows are not valid, or there are fewer than two groups. A retry cannot help.
        SpecError: alpha is not between 0 and 0.5. A retry cannot help.
    """
    truth, (values,) = validate_rows(label, score)
    alpha, rows = validate_alpha(alpha), len(truth)
    bins = split_into_bins(validate_probabilities(values))
    row_gaps = values - truth
    bin_gaps = np.array([row_gaps[bin_rows].sum() for bin_rows in bins]) / rows
    # `errors` has a column for each bin. The norm of a column is the standard error of the bin's gap, and the norm of a
    # sum of columns is the standard error of the sum of their gaps.
    if groups is None:
        group_count, degrees_of_freedom = None, math.inf
        errors = np.diag([np.linalg.norm(row_gaps[bin_rows] - row_gaps[bin_rows].mean()) / rows for bin_rows in bins])
    else:
        group_numbers = by_groups.number_groups(groups, rows)
        group_count = int(group_numbers.max()) + 1
        degrees_of_freedom = by_groups.count_degrees_of_freedom(group_count)
        errors = by_groups.compute_errors(_compute_pseudo_values(row_gaps, bins, group_numbers, group_count))
    plain_ece = float(np.abs(bin_gaps).sum())
    # The ECE is the sum of the gaps, each times its sign. So its error is the sum of the gaps' errors, each times the
    # sign of the gap.
    se = float(np.linalg.norm(errors @ np.where(bin_gaps < 0, -1.0, 1.0)))
    value = max(plain_ece - _compute_bias(bin_gaps, np.linalg.norm(errors, axis=0)), 0.0)
    quantile = compute_quantile(alpha, degrees_of_freedom)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(bins))))
    high = float((signs @ bin_gaps + quantile * np.linalg.norm(errors @ signs.T, axis=0)).max())
    return Estimate(value, max(value - quantile * se, 0.0), min(high, 1.0), se, rows, group_count, degrees_of_freedom)


def _compute_pseudo_values(row_gaps: Array, bins: list[Array], groups: Array, group_count: int) -> Array:
    """Compute the pseudo-values of the jackknife by groups for each bin's gap; shape (groups, bins)."""
    sums = np.stack([np.bincount(groups[bin_rows], row_gaps[bin_rows], group_count) for bin_rows in bins], axis=1)
    rows = np.bincount(groups, minlength=group_count)[:, np.newaxis]
    without_group = (sums.sum(axis=0) - sums) / (rows.sum() - rows)
    return by_groups.compute_pseudo_values(np.vstack([sums.sum(axis=0) / rows.sum(), without_group]))


def _compute_bias(gaps: Array, se: Array) -> float:
    """Compute by how much normally distributed errors raise the sum of the absolute gaps (mean of the folded normal).

    Args:
        gaps: gap of each bin; shape (bins,).
        se: standard error of each gap; shape (bins,). A gap with the error 0 has no bias.
    """
    size, scale = np.abs(gaps), np.where(se > 0, se, 1.0)
    ratio = size / scale
    mean = scale * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + size * (1 - 2 * ndtr(-ratio))
    return float(np.where(se > 0, mean - size, 0.0).sum())
