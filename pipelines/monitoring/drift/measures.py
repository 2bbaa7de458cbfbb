"""Distances between two vectors of counts. All broadcast over leading axes; the last axis has the bins.

Where one side is empty it has no shares, and the distance is 0.
"""

from __future__ import annotations

import numpy as np

from pipelines.monitoring.drift.counts import Array

EMPTY = 0.5
"""Rows that PSI takes for an empty bin, since the logarithm of 0 is undefined. As a share it shrinks with the sample:
an empty bin means little in 3 rows and much in a million."""
LEAST_EXPECTED = 5.0
"""Least expected rows in each bin of the smaller side for a chi-square test (Cochran 1954)."""
FAR = 1_000
"""Rows in a cell that expects `LEAST_EXPECTED`, above which the p-value is 0."""


def shares(counts: Array) -> Array:
    """Divide the counts by their sum; zeros where the sum is 0."""
    return _divide(counts, counts.sum(axis=-1, keepdims=True))


def psi(reference: Array, window: Array) -> Array:
    """Compute the population stability index, the sum of (p - q) ln(p / q), in nats. Bins empty in both count 0."""
    n, m = (counts.sum(axis=-1, keepdims=True) for counts in (reference, window))
    used = (reference + window > 0) & (n > 0) & (m > 0)
    p = np.where(used, _divide(np.where(reference > 0, reference, EMPTY), n), 1.0)
    q = np.where(used, _divide(np.where(window > 0, window, EMPTY), m), 1.0)
    return np.asarray(((p - q) * np.log(p / q)).sum(axis=-1))


def jensen_shannon(reference: Array, window: Array) -> Array:
    """Compute the Jensen-Shannon divergence, in bits: 0 to 1. The Jensen-Shannon distance is its square root."""
    p, q = shares(reference), shares(window)
    middle = (p + q) / 2
    both = (reference.sum(axis=-1) > 0) & (window.sum(axis=-1) > 0)
    bits = (_compute_divergence(p, middle) + _compute_divergence(q, middle)) / 2
    return np.asarray(np.where(both, np.maximum(bits, 0.0), 0.0))


def pearson(reference: Array, window: Array) -> Array:
    """Compute Pearson's chi-square of the two vectors of counts, without Yates' correction."""
    gap = shares(reference) - shares(window)
    pooled = shares(reference + window)
    return np.asarray(_divide(gap**2, pooled).sum(axis=-1) * scale(reference, window))


def scale(reference: Array, window: Array) -> Array:
    """Compute n m / (n + m) of the sums: the factor from squared distances of shares to a chi-square."""
    n, m = reference.sum(axis=-1), window.sum(axis=-1)
    return _divide(n * m, n + m)


def fisher(reference: Array, window: Array) -> float:
    """Compute the two-sided p-value of Fisher's exact test of a 2 x 2 table, for tables where a cell expects few rows.

    Computed from ratios of neighbouring probabilities: scipy 1.17 takes minutes for 1e12 rows, and its mode overflows.
    Tables as likely as the observed one are counted, within a relative 1e-7, as in R's fisher.test.
    """
    table = np.rint(np.stack([reference, window]))
    row, column = int(table.sum(axis=1).argmin()), int(table.sum(axis=0).argmin())
    row_sum, column_sum, rows = table[row].sum(), table[:, column].sum(), table.sum()
    if not min(row_sum, column_sum):
        return 1.0
    if (observed := int(table[row, column])) > FAR:
        return 0.0
    cell = np.arange(min(row_sum, column_sum, FAR))
    ratios = np.log(column_sum - cell) + np.log(row_sum - cell)
    ratios -= np.log(cell + 1) + np.log(rows - column_sum - row_sum + cell + 1)
    log_probability = np.concatenate([[0.0], np.cumsum(ratios)])
    log_probability -= log_probability.max()
    is_as_extreme = log_probability <= log_probability[observed] + 1e-7
    return float(np.exp(log_probability[is_as_extreme]).sum() / np.exp(log_probability).sum())


def kolmogorov_smirnov(reference: Array, window: Array) -> Array:
    """Compute the largest distance of the cumulative shares at the edges, a lower bound of that of the values."""
    return np.asarray(np.abs(_compute_cumulative_gap(reference, window)).max(axis=-1))


def wasserstein(reference: Array, window: Array, edges: Array) -> float | None:
    """Compute the Wasserstein-1 distance in standard deviations of the reference; None where that deviation is 0.

    The rows of a bin count at its middle; rows below the first edge or above the last count at that edge. The distance
    and the (population) standard deviation both use these points, so values far outside count as if at the edge.
    """
    # Scaled by a power of two, which changes no digit: squares of very large edges would overflow.
    edges = np.ldexp(edges, -np.frexp(np.abs(edges).max(initial=0))[1])
    points = np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    p = shares(reference)
    mean = float(p @ points)
    spread = float(np.sqrt(p @ (points - mean) ** 2))
    if not spread > 1e-12 * float(np.abs(points).max()):
        return None
    return float(np.abs(_compute_cumulative_gap(reference, window))[:-1] @ np.diff(points)) / spread


def pool_bins(reference: Array, window: Array, ordered: bool) -> Array:
    """Assign each bin to a group, so that each group expects at least `LEAST_EXPECTED` rows on the smaller side.

    Ordered bins are pooled with their neighbours from the left; categories are pooled by their rows, rarest first. The
    last bins join the last group.

    Returns:
        The number of the group of each bin, shape (bins,).
    """
    total = reference + window
    smaller = min(reference.sum(), window.sum()) / max(total.sum(), 1.0)
    order = np.arange(len(total)) if ordered else np.argsort(total, kind="stable")
    groups, group, expected = np.zeros(len(total), dtype=int), 0, 0.0
    for place in order:
        groups[place] = group
        expected += total[place] * smaller
        if expected >= LEAST_EXPECTED:
            group, expected = group + 1, 0.0
    return np.minimum(groups, max(group - 1, 0))


def merge_bins(days: Array, groups: Array) -> Array:
    """Sum counts, shape (days, bins), over the bins of each group; returns shape (days, groups)."""
    return np.asarray(days @ np.eye(int(groups.max()) + 1)[groups])


def _compute_cumulative_gap(reference: Array, window: Array) -> Array:
    both = (reference.sum(axis=-1, keepdims=True) > 0) & (window.sum(axis=-1, keepdims=True) > 0)
    return np.asarray(np.where(both, np.cumsum(shares(reference) - shares(window), axis=-1), 0.0))


def _compute_divergence(p: Array, middle: Array) -> Array:
    """Compute the Kullback-Leibler divergence from the middle, in bits; a share of 0 adds nothing."""
    used = p > 0
    return np.asarray((p * np.log2(np.where(used, _divide(p, np.where(used, middle, 1.0)), 1.0))).sum(axis=-1))


def _divide(over: Array, under: Array) -> Array:
    """Divide; 0 where `under` is 0."""
    shape = np.broadcast_shapes(np.shape(over), np.shape(under))
    return np.asarray(np.divide(over, under, out=np.zeros(shape), where=np.broadcast_to(under, shape) != 0))
