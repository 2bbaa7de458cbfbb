"""Compute distances between the counts of two sides: the reference and a window.

The last axis of each array is that of the bins. The functions that return distances or shares as an array broadcast
over the other axes. If one side has no rows, the distance is 0.
"""

from __future__ import annotations

import numpy as np

from pipelines.monitoring.drift.counts import Array

EMPTY_BIN_ROWS = 0.5
"""Number of rows that PSI assumes in an empty bin, since the logarithm of 0 is undefined. It is a number and not a
share, because an empty bin means little in 3 rows and much in a million."""
MIN_EXPECTED_ROWS = 5.0
"""A chi-square test needs at least this number of expected rows in each bin of the smaller side (Cochran 1954)."""
MAX_EXACT_ROWS = 1_000
"""Largest number of rows, in the cell of the smaller side and the rarer value, for which Fisher's test is computed.

The test is only used if fewer than `MIN_EXPECTED_ROWS` rows are expected in that cell. So if the cell has more
rows than `MAX_EXACT_ROWS`, the p-value is practically 0.
"""


def compute_shares(counts: Array) -> Array:
    """Divide the counts by their sum; zeros if the sum is 0."""
    return _divide(counts, counts.sum(axis=-1, keepdims=True))


def compute_psi(reference: Array, window: Array) -> Array:
    """Compute the population stability index, the sum of (p - q) ln(p / q), in nats. Bins empty on both sides add 0."""
    n, m = (counts.sum(axis=-1, keepdims=True) for counts in (reference, window))
    is_used = (reference + window > 0) & (n > 0) & (m > 0)
    p = np.where(is_used, _divide(np.where(reference > 0, reference, EMPTY_BIN_ROWS), n), 1.0)
    q = np.where(is_used, _divide(np.where(window > 0, window, EMPTY_BIN_ROWS), m), 1.0)
    return np.asarray(((p - q) * np.log(p / q)).sum(axis=-1))


def compute_jensen_shannon(reference: Array, window: Array) -> Array:
    """Compute the Jensen-Shannon divergence, in bits: 0 to 1. The Jensen-Shannon distance is its square root."""
    p, q = compute_shares(reference), compute_shares(window)
    mixture = (p + q) / 2
    has_rows = (reference.sum(axis=-1) > 0) & (window.sum(axis=-1) > 0)
    bits = (_compute_divergence(p, mixture) + _compute_divergence(q, mixture)) / 2
    return np.asarray(np.where(has_rows, np.maximum(bits, 0.0), 0.0))


def compute_chi_square(reference: Array, window: Array) -> Array:
    """Compute Pearson's chi-square of the two vectors of counts, without Yates' correction."""
    gap = compute_shares(reference) - compute_shares(window)
    pooled_share = compute_shares(reference + window)
    return np.asarray(_divide(gap**2, pooled_share).sum(axis=-1) * compute_sample_factor(reference, window))


def compute_sample_factor(reference: Array, window: Array) -> Array:
    """Compute n m / (n + m), where n and m are the rows of both sides.

    A chi-square is this factor times a squared distance of shares.
    """
    n, m = reference.sum(axis=-1), window.sum(axis=-1)
    return _divide(n * m, n + m)


def compute_fisher_p_value(reference: Array, window: Array) -> float:
    """Compute the two-sided p-value of Fisher's exact test of a 2 x 2 table. Use it if few rows are expected in a cell.

    The p-value is computed from ratios of neighbouring probabilities: scipy 1.17 takes minutes for 1e12 rows, and
    overflows. As in R's fisher.test, tables are treated as equally likely if their probabilities differ by a factor
    below 1 + 1e-7.
    """
    table = np.rint(np.stack([reference, window]))
    side, value = int(table.sum(axis=1).argmin()), int(table.sum(axis=0).argmin())
    side_rows, value_rows, total_rows = table[side].sum(), table[:, value].sum(), table.sum()
    if not min(side_rows, value_rows):
        return 1.0
    if (observed_count := int(table[side, value])) > MAX_EXACT_ROWS:
        return 0.0
    cell_rows = np.arange(min(side_rows, value_rows, MAX_EXACT_ROWS))
    ratios = np.log(value_rows - cell_rows) + np.log(side_rows - cell_rows)
    ratios -= np.log(cell_rows + 1) + np.log(total_rows - value_rows - side_rows + cell_rows + 1)
    log_probability = np.concatenate([[0.0], np.cumsum(ratios)])
    log_probability -= log_probability.max()
    is_as_extreme = log_probability <= log_probability[observed_count] + 1e-7
    return float(np.exp(log_probability[is_as_extreme]).sum() / np.exp(log_probability).sum())


def compute_ks_distance(reference: Array, window: Array) -> Array:
    """Compute the largest distance between the cumulative shares at the edges. Between two edges, it may be larger."""
    return np.asarray(np.abs(_compute_cumulative_gap(reference, window)).max(axis=-1))


def compute_wasserstein(reference: Array, window: Array, edges: Array) -> float | None:
    """Compute the Wasserstein-1 distance in standard deviations of the reference.

    Return None if that deviation is 0, or if the reference has no rows.

    Each row of a bin gets the middle of the bin as its value; below the first edge or above the last, it gets that
    edge. The distance and the (population) standard deviation both use these values, so it does not matter how far
    outside a value is.
    """
    # The edges are scaled by a power of two, which changes no digit: squares of very large edges would overflow.
    edges = np.ldexp(edges, -np.frexp(np.abs(edges).max(initial=0))[1])
    points = np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    p = compute_shares(reference)
    mean = float(p @ points)
    deviation = float(np.sqrt(p @ (points - mean) ** 2))
    if not deviation > 1e-12 * float(np.abs(points).max()):
        return None
    return float(np.abs(_compute_cumulative_gap(reference, window))[:-1] @ np.diff(points)) / deviation


def pool_bins(reference: Array, window: Array, is_ordered: bool) -> Array:
    """Assign each bin to a group, so that each group expects at least `MIN_EXPECTED_ROWS` rows on the smaller side.

    Ordered bins are pooled with their neighbours, beginning at the left; categories are pooled by their rows, rarest
    first. Bins at the end that do not suffice for a group of their own join the last group. If all bins together do not
    suffice for one group, they are still one group.

    Returns:
        The number of the group of each bin, shape (bins,).
    """
    total = reference + window
    smaller_share = min(reference.sum(), window.sum()) / max(total.sum(), 1.0)
    order = np.arange(len(total)) if is_ordered else np.argsort(total, kind="stable")
    groups, group, expected_rows = np.zeros(len(total), dtype=int), 0, 0.0
    for position in order:
        groups[position] = group
        expected_rows += total[position] * smaller_share
        if expected_rows >= MIN_EXPECTED_ROWS:
            group, expected_rows = group + 1, 0.0
    return np.minimum(groups, max(group - 1, 0))


def merge_bins(counts: Array, groups: Array) -> Array:
    """Sum counts, shape (days, bins), over the bins of each group; returns shape (days, groups)."""
    return np.asarray(counts @ np.eye(int(groups.max()) + 1)[groups])


def _compute_cumulative_gap(reference: Array, window: Array) -> Array:
    """Subtract the window's cumulative shares from the reference's; zeros if one side has no rows."""
    has_rows = (reference.sum(axis=-1, keepdims=True) > 0) & (window.sum(axis=-1, keepdims=True) > 0)
    return np.asarray(np.where(has_rows, np.cumsum(compute_shares(reference) - compute_shares(window), axis=-1), 0.0))


def _compute_divergence(p: Array, mixture: Array) -> Array:
    """Compute the Kullback-Leibler divergence from the mixture of both sides, in bits; a share of 0 adds nothing."""
    is_used = p > 0
    return np.asarray((p * np.log2(np.where(is_used, _divide(p, np.where(is_used, mixture, 1.0)), 1.0))).sum(axis=-1))


def _divide(numerator: Array, denominator: Array) -> Array:
    """Return the quotient; 0 where the denominator is 0."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    return np.asarray(
        np.divide(numerator, denominator, out=np.zeros(shape), where=np.broadcast_to(denominator, shape) != 0)
    )
