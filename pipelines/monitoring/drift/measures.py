"""How far apart two rows of counts are. Everything broadcasts over leading axes; the last one is of the bins.

An empty side has no shares: the result is then 0, no distance by arithmetic.
"""

from __future__ import annotations

import numpy as np

from pipelines.monitoring.drift.counts import Array

EMPTY = 0.5
"""Rows that stand in an empty bin for PSI, whose logarithm has no zero: the most that rounds to none. It shrinks with
the sample, so an empty bin says little in three rows and much in a million; a fixed share does not."""
LEAST_EXPECTED = 5.0
"""Rows that each bin of the smaller side should expect for a chi-square (Cochran 1954)."""
FAR = 1_000
"""Rows in a cell that expects `LEAST_EXPECTED`, beyond which no chance is left."""


def shares(counts: Array) -> Array:
    """The counts as shares of their sum; zeros where that is 0."""
    return _ratio(counts, counts.sum(axis=-1, keepdims=True))


def psi(reference: Array, window: Array) -> Array:
    """Population stability index: sum of (p - q) ln(p / q), nats. Bins empty in both are left out."""
    n, m = (one.sum(axis=-1, keepdims=True) for one in (reference, window))
    used = (reference + window > 0) & (n > 0) & (m > 0)
    p = np.where(used, _ratio(np.where(reference > 0, reference, EMPTY), n), 1.0)
    q = np.where(used, _ratio(np.where(window > 0, window, EMPTY), m), 1.0)
    return np.asarray(((p - q) * np.log(p / q)).sum(axis=-1))


def jensen_shannon(reference: Array, window: Array) -> Array:
    """Jensen-Shannon *divergence*, bits: 0 to 1. The distance is its root."""
    p, q = shares(reference), shares(window)
    middle = (p + q) / 2
    both = (reference.sum(axis=-1) > 0) & (window.sum(axis=-1) > 0)
    bits = (_entropy_to(p, middle) + _entropy_to(q, middle)) / 2
    return np.asarray(np.where(both, np.maximum(bits, 0.0), 0.0))


def pearson(reference: Array, window: Array) -> Array:
    """Pearson's chi-square of the two rows of counts, never with Yates' correction."""
    gap = shares(reference) - shares(window)
    pooled = shares(reference + window)
    return np.asarray(_ratio(gap**2, pooled).sum(axis=-1) * scale(reference, window))


def scale(reference: Array, window: Array) -> Array:
    """The sums' n m / (n + m): what makes a squared distance of shares a chi-square; 0 where a side is empty."""
    n, m = reference.sum(axis=-1), window.sum(axis=-1)
    return _ratio(n * m, n + m)


def fisher(reference: Array, window: Array) -> float:
    """P-value of Fisher's exact test of two rows of two counts, two-sided, for tables where a cell expects few rows.

    By the ratios of neighbouring chances: scipy 1.17's takes minutes of 1e12 rows, and its mode overflows. Tables as
    likely as the one that is there count as well, to a relative 1e-7 as in R's fisher.test.
    """
    table = np.rint(np.stack([reference, window]))
    row, column = int(table.sum(axis=1).argmin()), int(table.sum(axis=0).argmin())
    some, rare, rows = table[row].sum(), table[:, column].sum(), table.sum()
    if not min(some, rare):
        return 1.0
    if (there := int(table[row, column])) > FAR:
        return 0.0
    at = np.arange(min(some, rare, FAR))
    steps = np.log(rare - at) + np.log(some - at) - np.log(at + 1) - np.log(rows - rare - some + at + 1)
    chances = np.concatenate([[0.0], np.cumsum(steps)])
    chances -= chances.max()
    as_far = chances <= chances[there] + 1e-7
    return float(np.exp(chances[as_far]).sum() / np.exp(chances).sum())


def kolmogorov_smirnov(reference: Array, window: Array) -> Array:
    """Largest distance of the cumulative shares at the edges: a lower bound of that of the values themselves."""
    return np.asarray(np.abs(_cumulative_gap(reference, window)).max(axis=-1))


def wasserstein(reference: Array, window: Array, edges: Array) -> float | None:
    """Wasserstein-1 distance in the reference's standard deviations; None where the reference has none.

    Each bin's rows are put at its middle, those under the first edge and over the last at that edge: distance and
    standard deviation (of the population) are both of these points. What is far outside is seen no farther than there.
    """
    # By a power of two, so to the bit the same: in their own size squares of large numbers have no end.
    edges = np.ldexp(edges, -np.frexp(np.abs(edges).max(initial=0))[1])
    points = np.concatenate([edges[:1], (edges[:-1] + edges[1:]) / 2, edges[-1:]])
    p = shares(reference)
    mean = float(p @ points)
    spread = float(np.sqrt(p @ (points - mean) ** 2))
    if not spread > 1e-12 * float(np.abs(points).max()):
        return None
    return float(np.abs(_cumulative_gap(reference, window))[:-1] @ np.diff(points)) / spread


def pooled(reference: Array, window: Array, ordered: bool) -> Array:
    """For each bin (one axis only) the number of the group it is merged into, so that each group expects rows enough.

    Bins are merged from the left until the smaller side expects `LEAST_EXPECTED` rows; what is left joins the last
    group. Ordered bins with their neighbours, categories by their rows, the rarest first.
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


def merged(days: Array, groups: Array) -> Array:
    """The counts, shape (days, bins), of merged bins."""
    return np.asarray(days @ np.eye(int(groups.max()) + 1)[groups])


def _cumulative_gap(reference: Array, window: Array) -> Array:
    both = (reference.sum(axis=-1, keepdims=True) > 0) & (window.sum(axis=-1, keepdims=True) > 0)
    return np.asarray(np.where(both, np.cumsum(shares(reference) - shares(window), axis=-1), 0.0))


def _entropy_to(p: Array, middle: Array) -> Array:
    """Kullback-Leibler divergence to the middle, bits; a share of 0 adds nothing."""
    used = p > 0
    return np.asarray((p * np.log2(np.where(used, _ratio(p, np.where(used, middle, 1.0)), 1.0))).sum(axis=-1))


def _ratio(over: Array, under: Array) -> Array:
    """The quotient; 0 where under is 0."""
    shape = np.broadcast_shapes(np.shape(over), np.shape(under))
    return np.asarray(np.divide(over, under, out=np.zeros(shape), where=np.broadcast_to(under, shape) != 0))
