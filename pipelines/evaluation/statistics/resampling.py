"""Draw bootstrap samples as weights: how often each row is in each draw. In batches of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.evaluation.statistics.inputs import Array

CELLS = 1 << 20
"""Weights in a batch: 8 MB for each array that a metric computes from it."""


def compute_batch_size(rows: int) -> int:
    """Return how many draws of that many rows are in a batch."""
    return max(1, CELLS // rows)


def draw_stratified(label: Array, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Draw rows with replacement, keeping the number of rows of each label.

    It draws the same as scipy 1.17: scipy.stats.bootstrap(batch=compute_batch_size(rows)) of the two samples, label 1
    and label 0.

    Yields:
        Batches of weights of rows, shape (draws, rows).
    """
    strata = (np.flatnonzero(label), np.flatnonzero(~label))
    order = np.argsort(np.concatenate(strata))
    for size in _split_into_batches(draws, len(label)):
        weights = [_count(random.integers(0, len(part), (size, len(part))), len(part)) for part in strata]
        yield np.concatenate(weights, axis=1, dtype=np.float64)[:, order]


def draw_groups(groups: int, rows: int, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Draw whole groups with replacement; each draw has as many groups as there are.

    Args:
        groups: number of groups.
        rows: number of rows in all groups, which sets the size of a batch.
        draws: number of draws.
        random: source of randomness.

    Yields:
        Batches of weights of groups, shape (draws, groups).
    """
    for size in _split_into_batches(draws, rows):
        yield _count(random.integers(0, groups, (size, groups)), groups).astype(np.float64)


def draw_from_subset(label: Array, totals: Sequence[int], draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Draw samples of the size of all rows from a subset of them, as the bag of little bootstraps does.

    Args:
        label: labels of the subset, shape (rows,).
        totals: numbers of all rows of label 1 and of label 0; the weights of each label sum to them.
        draws: number of draws.
        random: source of randomness.

    Yields:
        Batches of weights of the subset's rows, shape (draws, rows).
    """
    strata = (np.flatnonzero(label), np.flatnonzero(~label))
    order = np.argsort(np.concatenate(strata))
    for size in _split_into_batches(draws, len(label)):
        weights = [draw_multinomial(total, len(part), size, random) for total, part in zip(totals, strata, strict=True)]
        yield np.concatenate(weights, axis=1, dtype=np.float64)[:, order]


def draw_multinomial(total: int, cells: int, size: int, random: np.random.Generator) -> Array:
    """Distribute `total` items over equally likely cells, `size` times; shape (size, cells), rows sum to `total`.

    Poisson counts are multinomial given their sum. So this draws Poisson counts with a mean sum a little below the
    total, and adds the missing items one by one. numpy's own multinomial is exact too, but several times slower at
    this shape.
    """
    mean_sum = max(total - 3 * math.sqrt(total), 0.0)
    counts = random.poisson(mean_sum / cells, (size, cells))
    missing = total - counts.sum(axis=1)
    for row in np.flatnonzero(missing < 0):
        counts[row] = random.multinomial(total, np.full(cells, 1 / cells))
    missing = np.maximum(missing, 0)
    added = np.repeat(np.arange(size) * cells, missing) + random.integers(0, cells, int(missing.sum()))
    return np.asarray(counts + np.bincount(added, minlength=size * cells).reshape(size, cells))


def _split_into_batches(draws: int, rows: int) -> Iterator[int]:
    size = compute_batch_size(rows)
    for first in range(0, draws, size):
        yield min(size, draws - first)


def _count(cells: Array, number: int) -> Array:
    """Count how often each cell occurs in each row of `cells`, which is changed in place; shape (rows, number)."""
    cells += np.arange(len(cells))[:, np.newaxis] * number
    return np.bincount(cells.ravel(), minlength=len(cells) * number).reshape(len(cells), number)
