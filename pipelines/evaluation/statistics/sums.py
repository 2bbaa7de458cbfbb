"""Metrics of weighted rows that can also be told of weighted groups: exactly, and without going through the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.evaluation.statistics.inputs import Array

Column = tuple[Array | slice, Array]
"""Rows, and the value of each of them."""
ALL = slice(None)


@dataclass(frozen=True)
class Sums:
    """A function of weighted sums over rows."""

    columns: Sequence[Column]
    """One for each sum."""
    of: Callable[..., Array]
    """The metric of the sums, each of shape (draws,)."""

    def __call__(self, weights: Array) -> Array:
        """The metric of each draw; weights of shape (draws, rows)."""
        return self.of(*(weights[:, members] @ values for members, values in self.columns))

    def grouped(self, groups: Array, number: int) -> Sums:
        """The same of weights of groups, shape (draws, number); `groups` is each row's group."""
        sums = (np.bincount(groups[members], values, number) for members, values in self.columns)
        return Sums([(ALL, one) for one in sums], self.of)


class Pairs:
    """The weighted share of pairs of a 1 and a 0 that a score has in the right order, ties a half: the AUC."""

    def __init__(self, label: Array, score: Array) -> None:
        zeros = np.flatnonzero(~label)
        self._ones, self._zeros = np.flatnonzero(label), zeros[np.argsort(score[zeros])]
        scores, ones = score[self._zeros], score[self._ones]
        # Of each row of label 1, how many of the others are below it, and how many are not above.
        self._first, self._last = np.searchsorted(scores, ones, "left"), np.searchsorted(scores, ones, "right")
        self._tied = bool((self._first != self._last).any())

    def __call__(self, weights: Array) -> Array:
        """The AUC of each draw; weights of shape (draws, rows)."""
        below = np.zeros((len(weights), len(self._zeros) + 1))
        np.cumsum(weights[:, self._zeros], axis=1, out=below[:, 1:])
        counts = np.take(below, self._first, axis=1)
        if self._tied:
            counts = (counts + np.take(below, self._last, axis=1)) / 2
        ones = weights[:, self._ones]
        return ratio(np.einsum("ij,ij->i", ones, counts), ones.sum(axis=1) * below[:, -1], np.nan)

    def grouped(self, groups: Array, number: int) -> Callable[[Array], Array]:
        """The same of weights of groups, shape (draws, number): from a table of pairs by the groups of both."""
        wins = np.empty((number, number))
        of_ones, of_zeros = groups[self._ones], groups[self._zeros]
        for group in range(number):
            below = np.append(0, np.cumsum(of_zeros == group))
            wins[:, group] = np.bincount(of_ones, (below[self._first] + below[self._last]) / 2, number)
        ones, zeros = (np.bincount(one, minlength=number).astype(np.float64) for one in (of_ones, of_zeros))
        return lambda counts: ratio(((counts @ wins) * counts).sum(axis=1), (counts @ ones) * (counts @ zeros), np.nan)


def ratio(over: Array, under: Array, empty: float) -> Array:
    """The quotient; `empty` where under is 0."""
    return np.asarray(np.divide(over, under, out=np.full(over.shape, empty), where=under != 0))
