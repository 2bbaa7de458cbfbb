"""Weights of rows as a bootstrap draws them: how often each row is in each draw. In batches of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.evaluation.statistics.inputs import Array

CELLS = 1 << 20
"""Weights in a batch: 8 MB of each array that a metric makes on its way."""


def batch(rows: int) -> int:
    """Draws that are made at once."""
    return max(1, CELLS // rows)


def stratified(label: Array, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Batches of weights, shape (draws, rows): as many rows of each label as there are, with replacement.

    Draws what scipy.stats.bootstrap(batch=batch(rows)) draws of the two samples (label 1, label 0) at scipy 1.17.
    """
    strata = (np.flatnonzero(label), np.flatnonzero(~label))
    back = np.argsort(np.concatenate(strata))
    for size in _sizes(draws, len(label)):
        drawn = [_counts(random.integers(0, len(one), (size, len(one))), len(one)) for one in strata]
        yield np.concatenate(drawn, axis=1, dtype=np.float64)[:, back]


def whole(groups: int, rows: int, draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Batches of weights of groups, shape (draws, groups): as many as there are, with replacement.

    Args:
        groups: how many.
        rows: in all of them together: a batch is as large as can be of rows.
        draws: how many.
        random: where from.
    """
    for size in _sizes(draws, rows):
        yield _counts(random.integers(0, groups, (size, groups)), groups).astype(np.float64)


def spread(label: Array, totals: Sequence[int], draws: int, random: np.random.Generator) -> Iterator[Array]:
    """Batches of weights of a subset that stands for more rows: of each label they sum to its total.

    Args:
        label: shape (rows,), of the subset.
        totals: rows of label 1 and of label 0 that it stands for.
        draws: how many.
        random: where from.
    """
    strata = (np.flatnonzero(label), np.flatnonzero(~label))
    back = np.argsort(np.concatenate(strata))
    for size in _sizes(draws, len(label)):
        drawn = [multinomial(total, len(one), size, random) for total, one in zip(totals, strata, strict=True)]
        yield np.concatenate(drawn, axis=1, dtype=np.float64)[:, back]


def multinomial(total: int, cells: int, size: int, random: np.random.Generator) -> Array:
    """Counts of `total` things in equal `cells`, shape (size, cells), each row summing to `total`.

    Poisson counts, given their sum, are multinomial. So: Poisson counts of a little less than the total, and what is
    missing is thrown in one by one. numpy's own multinomial is exact too, and several times slower at this shape.
    """
    few = max(total - 3 * math.sqrt(total), 0.0)
    counts = random.poisson(few / cells, (size, cells))
    missing = total - counts.sum(axis=1)
    for row in np.flatnonzero(missing < 0):
        counts[row] = random.multinomial(total, np.full(cells, 1 / cells))
    missing = np.maximum(missing, 0)
    thrown = np.repeat(np.arange(size) * cells, missing) + random.integers(0, cells, int(missing.sum()))
    return np.asarray(counts + np.bincount(thrown, minlength=size * cells).reshape(size, cells))


def _sizes(draws: int, rows: int) -> Iterator[int]:
    most = batch(rows)
    for begin in range(0, draws, most):
        yield min(most, draws - begin)


def _counts(drawn: Array, cells: int) -> Array:
    """How often each cell was drawn, for each row of `drawn`, which is changed."""
    drawn += np.arange(len(drawn))[:, np.newaxis] * cells
    return np.bincount(drawn.ravel(), minlength=len(drawn) * cells).reshape(len(drawn), cells)
