"""Define metrics of weighted rows.

Each metric except a quantile can also be computed, with the same result, from weights of groups of rows. All rows of a
group then have the same weight, such as 0 if the group is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.evaluation.statistics.inputs import Array

RowValues = tuple[Array | slice, Array]
"""The rows over which a sum is taken, and the value of each of these rows."""
WeightedMetric = Callable[[Array], Array]
"""Takes weights of rows, shape (draws, rows), and returns the metric of each draw, shape (draws,). A draw is a vector
of weights: a resample of the bootstrap, or all rows except those of one group."""
MetricBuilder = Callable[[Array, Array], WeightedMetric]
"""Takes labels of shape (rows,), and scores; returns the metric as a function of weights."""
ALL_ROWS = slice(None)
"""Selects all rows, or all groups of rows."""


@dataclass(frozen=True)
class WeightedSums:
    """A metric that is a function of weighted sums over rows."""

    terms: Sequence[RowValues]
    """Rows and values of each sum."""
    combine: Callable[..., Array]
    """Takes the sums, each of shape (draws,), and returns the metric of each draw."""

    def __call__(self, weights: Array) -> Array:
        """Compute the metric of each draw from weights of rows, shape (draws, rows)."""
        return self.combine(*(weights[:, rows] @ values for rows, values in self.terms))

    def build_group_metric(self, groups: Array, group_count: int) -> WeightedSums:
        """Return the metric as a function of weights of groups, shape (draws, group_count).

        Args:
            groups: group of each row, from 0 to group_count - 1.
            group_count: number of groups.
        """
        sums = (np.bincount(groups[rows], values, group_count) for rows, values in self.terms)
        return WeightedSums([(ALL_ROWS, values) for values in sums], self.combine)


class WeightedAuc:
    """The AUC: the weighted share of pairs of a row of label 1 and one of label 0 in the right order. A tie is half."""

    def __init__(self, label: Array, score: Array) -> None:
        zeros = np.flatnonzero(~label)
        self._ones, self._zeros = np.flatnonzero(label), zeros[np.argsort(score[zeros])]
        scores, ones = score[self._zeros], score[self._ones]
        # For each row of label 1: how many rows of label 0 have a lower score, and how many a lower or equal one.
        self._lower = np.searchsorted(scores, ones, "left")
        self._lower_or_equal = np.searchsorted(scores, ones, "right")
        self._has_ties = bool((self._lower != self._lower_or_equal).any())

    def __call__(self, weights: Array) -> Array:
        """Compute the AUC of each draw from weights of rows, shape (draws, rows)."""
        cumulative_weights = np.zeros((len(weights), len(self._zeros) + 1))
        np.cumsum(weights[:, self._zeros], axis=1, out=cumulative_weights[:, 1:])
        wins = np.take(cumulative_weights, self._lower, axis=1)
        if self._has_ties:
            wins = (wins + np.take(cumulative_weights, self._lower_or_equal, axis=1)) / 2
        ones = weights[:, self._ones]
        return divide(np.einsum("ij,ij->i", ones, wins), ones.sum(axis=1) * cumulative_weights[:, -1], np.nan)

    def build_group_metric(self, groups: Array, group_count: int) -> Callable[[Array], Array]:
        """Return the AUC as a function of weights of groups, shape (draws, group_count).

        The function uses a table of shape (group_count, group_count): the number of pairs in the right order, by the
        group of the 1 and the group of the 0.

        Args:
            groups: group of each row, from 0 to group_count - 1.
            group_count: number of groups.
        """
        wins = np.empty((group_count, group_count))
        groups_of_ones, groups_of_zeros = groups[self._ones], groups[self._zeros]
        for group in range(group_count):
            cumulative_counts = np.append(0, np.cumsum(groups_of_zeros == group))
            pairs = (cumulative_counts[self._lower] + cumulative_counts[self._lower_or_equal]) / 2
            wins[:, group] = np.bincount(groups_of_ones, pairs, group_count)
        ones, zeros = (
            np.bincount(row_groups, minlength=group_count).astype(np.float64)
            for row_groups in (groups_of_ones, groups_of_zeros)
        )
        return lambda counts: divide(((counts @ wins) * counts).sum(axis=1), (counts @ ones) * (counts @ zeros), np.nan)


@dataclass(frozen=True)
class MeanOfMetrics:
    """The mean of several metrics, such as one for each class. A metric that is NaN in a draw is left out."""

    metrics: Sequence[WeightedSums | WeightedAuc]

    def __call__(self, weights: Array) -> Array:
        """Compute the mean for each draw from weights of rows, shape (draws, rows)."""
        return _compute_mean(self.metrics, weights)

    def build_group_metric(self, groups: Array, group_count: int) -> WeightedMetric:
        """Return the mean as a function of weights of groups, shape (draws, group_count).

        Args:
            groups: group of each row, from 0 to group_count - 1.
            group_count: number of groups.
        """
        group_metrics = [metric.build_group_metric(groups, group_count) for metric in self.metrics]
        return lambda weights: _compute_mean(group_metrics, weights)


def _compute_mean(metrics: Sequence[WeightedMetric], weights: Array) -> Array:
    values = np.stack([metric(weights) for metric in metrics])
    has_value = np.isfinite(values)
    return divide(np.where(has_value, values, 0.0).sum(axis=0), has_value.sum(axis=0).astype(np.float64), np.nan)


def build_mean_metric(values: Array) -> WeightedSums:
    """Build the weighted mean of `values`, which has one value for each row."""
    terms: list[RowValues] = [(ALL_ROWS, values), (ALL_ROWS, np.ones(len(values)))]
    return WeightedSums(terms, lambda total, rows: divide(total, rows, np.nan))


def build_quantile_metric(values: Array, share: float) -> WeightedMetric:
    """Build a quantile of `values`, which has one value for each row. Between two values, take their mean.

    This is definition 2 of Hyndman and Fan (1996). For a draw whose weights are all 0, the quantile is NaN.

    Args:
        values: shape (rows,).
        share: share of the weight that is at or below the quantile, between 0 and 1: 0.5 is the median.
    """
    order = np.argsort(values, kind="stable")
    ordered_values = values[order]

    def compute(weights: Array) -> Array:
        cumulative_weights = np.cumsum(weights[:, order], axis=1)
        total = cumulative_weights[:, -1:]
        lower = np.argmax(cumulative_weights >= share * total, axis=1)
        upper = np.argmax(cumulative_weights > share * total, axis=1)
        return np.where(total[:, 0] > 0, (ordered_values[lower] + ordered_values[upper]) / 2, np.nan)

    return compute


def divide(numerator: Array, denominator: Array, default: float) -> Array:
    """Divide elementwise; use `default` if the denominator is 0."""
    quotient = np.full(numerator.shape, default)
    return np.asarray(np.divide(numerator, denominator, out=quotient, where=denominator != 0))
