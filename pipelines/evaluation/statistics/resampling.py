"""Draw bootstrap samples as weights, in batches of bounded memory. A weight says how often a row is in a draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.evaluation.statistics.inputs import Array, find_strata

BATCH_WEIGHTS = 1 << 20
"""Largest number of weights in a batch; an array of as many floats has 8 MB."""


def compute_batch_size(rows: int) -> int:
    """Return the number of draws in a batch if each draw has `rows` weights; at least 1."""
    return max(1, BATCH_WEIGHTS // rows)


def draw_stratified(label: Array, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Draw rows with replacement. Each draw has as many rows of each stratum as `label` has (see `find_strata`).

    For binary labels, the draws equal those of scipy 1.17: scipy.stats.bootstrap(batch=compute_batch_size(rows)) of two
    samples, the rows of label 1 and those of label 0.

    Yields:
        Batches of weights of rows, shape (draws, rows).
    """
    strata = find_strata(label)
    order = np.argsort(np.concatenate(strata))
    for size in _split_into_batches(draws, len(label)):
        weights = [
            _count_cells(random.integers(0, len(stratum), (size, len(stratum))), len(stratum)) for stratum in strata
        ]
        yield np.concatenate(weights, axis=1, dtype=np.float64)[:, order]


def draw_from_subset(label: Array, totals: Sequence[int], draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Draw samples from a subset, each as large as the set of all rows.

    The bag of little bootstraps (Kleiner et al. 2014) does this for each of its subsets.

    Args:
        label: labels of the subset, shape (rows,).
        totals: number of all rows, not only those of the subset, for each stratum of `find_strata`. The weights of the
            stratum sum to this number.
        draws: number of draws.
        random: source of randomness.

    Yields:
        Batches of weights of the subset's rows, shape (draws, rows).
    """
    strata = find_strata(label)
    order = np.argsort(np.concatenate(strata))
    for size in _split_into_batches(draws, len(label)):
        weights = [
            draw_multinomial(total, len(stratum), size, random) for total, stratum in zip(totals, strata, strict=True)
        ]
        yield np.concatenate(weights, axis=1, dtype=np.float64)[:, order]


def draw_multinomial(total: int, cells: int, size: int, random: np.random.Generator) -> Array:
    """Distribute `total` items over equally likely cells, `size` times.

    Poisson counts are multinomial given their sum. So this draws Poisson counts whose sum has a mean a little below
    `total`, and adds the missing items one by one. numpy's own multinomial is exact too, but several times slower at
    this shape. It is used only for the rows whose Poisson counts sum to more than `total`.

    Returns:
        Counts of shape (size, cells); each row sums to `total`.
    """
    mean_sum = max(total - 3 * math.sqrt(total), 0.0)
    counts = random.poisson(mean_sum / cells, (size, cells))
    missing_items = total - counts.sum(axis=1)
    for row in np.flatnonzero(missing_items < 0):
        counts[row] = random.multinomial(total, np.full(cells, 1 / cells))
    missing_items = np.maximum(missing_items, 0)
    extra_cells = np.repeat(np.arange(size) * cells, missing_items) + random.integers(
        0, cells, int(missing_items.sum())
    )
    return np.asarray(counts + np.bincount(extra_cells, minlength=size * cells).reshape(size, cells))


def _split_into_batches(draws: int, rows: int) -> Iterator[int]:
    """Yield the number of draws of each batch."""
    size = compute_batch_size(rows)
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _count_cells(cells: Array, cell_count: int) -> Array:
    """Return how often each cell occurs in each row of `cells`, shape (rows, cell_count). Change `cells` in place."""
    cells += np.arange(len(cells))[:, np.newaxis] * cell_count
    return np.bincount(cells.ravel(), minlength=len(cells) * cell_count).reshape(len(cells), cell_count)
