"""Estimate how much of the variance of the objective each hyperparameter explains (fANOVA, Hutter et al. 2014).

The results are those of Optuna's FanovaImportanceEvaluator, which takes some ten times as long: it computes the
marginal of a tree in Python, for one value after the other.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna._transform import _SearchSpaceTransform

from pipelines.tuning.distributions import build_distributions
from pipelines.tuning.report.results import TuningResult

MIN_TRIALS = 4
"""Least number of completed trials from which the importance of the hyperparameters is estimated."""
TREES, DEPTH = 64, 64
"""Number of trees, and their largest depth, as in Optuna."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tree:
    """The leaves of a regression tree."""

    values: Array
    """Prediction of each leaf, shape (leaves,)."""
    boxes: Array
    """Lower and upper bound of each leaf in each column, shape (leaves, columns, 2)."""

    def compute_variance(self) -> float:
        """Return the variance of the prediction, if all values of the space are equally likely."""
        return _compute_variance(self.values, np.prod(self.boxes[:, :, 1] - self.boxes[:, :, 0], axis=1))

    def compute_marginal_variance(self, columns: Sequence[int]) -> float:
        """Return the variance, over the values of some columns, of the prediction averaged over the other columns."""
        sizes = self.boxes[:, :, 1] - self.boxes[:, :, 0]
        sizes[:, columns] = 1.0
        volumes = np.prod(sizes, axis=1)
        masks, widths = zip(*(self._divide_column(column) for column in columns), strict=True)
        values, weights = [], []
        # Only a categorical hyperparameter has several columns, and each of them has at most two intervals. All
        # intervals of the last column are computed together.
        for intervals in itertools.product(*(range(len(width)) for width in widths[:-1])):
            chosen_masks = [mask[interval] for mask, interval in zip(masks, intervals, strict=False)]
            leaf_volumes = volumes * np.prod(chosen_masks, axis=0)
            interval_volumes = masks[-1] @ leaf_volumes
            values.append((masks[-1] @ (leaf_volumes * self.values)) / interval_volumes)
            width = np.prod([width[interval] for width, interval in zip(widths, intervals, strict=False)])
            weights.append(interval_volumes * widths[-1] * width)
        return _compute_variance(np.concatenate(values), np.concatenate(weights))

    def _divide_column(self, column: int) -> tuple[Array, Array]:
        """Return which leaves are in each interval between two splits, shape (intervals, leaves), and the widths."""
        low, high = self.boxes[:, column, 0], self.boxes[:, column, 1]
        edges = np.unique(np.concatenate([low, high]))
        middles = (edges[1:] + edges[:-1])[:, np.newaxis] / 2
        return ((low < middles) & (middles <= high)).astype(float), np.diff(edges)


def estimate_importance(result: TuningResult) -> dict[str, float]:
    """Estimate each hyperparameter's share of the variance of the objective.

    Returns:
        Maps each hyperparameter to its share, largest first. Empty if the space has only one, if too few trials were
        completed, or if all of these have equal objectives or equal values.
    """
    trials = [trial for trial in result.trials if trial.objective is not None]
    names = list(result.plan.space)
    if len(trials) < MIN_TRIALS or len({trial.objective for trial in trials}) == 1 or len(names) < 2:
        return {}
    # In Optuna's order: in another order, the seed would give other trees than in Optuna.
    distributions = dict(sorted(build_distributions(result.plan.space).items()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = _SearchSpaceTransform(distributions, transform_log=False, transform_step=False)
        rows = np.array([space.transform(trial.parameters) for trial in trials])
        trees = _fit_trees(rows, np.array([trial.objective for trial in trials]), space.bounds, result.plan.seed)
    trees = [tree for tree in trees if tree.compute_variance() > 0]
    if not trees:
        return {}
    variances = [tree.compute_variance() for tree in trees]
    shares = {}
    for name, columns in zip(distributions, space.column_to_encoded_columns, strict=True):
        marginal_variances = [tree.compute_marginal_variance(columns.tolist()) for tree in trees]
        shares[name] = float(np.mean(np.divide(marginal_variances, variances)))
    total = sum(shares.values()) or 1.0
    return dict(sorted(((name, share / total) for name, share in shares.items()), key=lambda item: -item[1]))


def _fit_trees(rows: Array, objectives: Array, bounds: Array, seed: int) -> list[Tree]:
    """Fit a random forest to the objectives of the trials, shape (trials,); `rows` has their encoded values."""
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=TREES, max_depth=DEPTH, random_state=seed).fit(rows, objectives)
    return [_build_tree(estimator.tree_, bounds) for estimator in forest.estimators_]


def _build_tree(tree: Any, bounds: Array) -> Tree:
    """Return the leaves of sklearn's tree in a space with these bounds, shape (columns, 2)."""
    boxes = np.empty((tree.node_count, *bounds.shape))
    boxes[0] = bounds
    splits = zip(tree.feature, tree.threshold, tree.children_left, tree.children_right, strict=True)
    for node, (column, threshold, left, right) in enumerate(splits):
        if column >= 0:  # a node with children, which have larger numbers and so are visited later
            boxes[left] = boxes[right] = boxes[node]
            boxes[left, column, 1] = boxes[right, column, 0] = threshold
    is_leaf = tree.feature < 0
    return Tree(tree.value[is_leaf].reshape(-1), boxes[is_leaf])


def _compute_variance(values: Array, weights: Array) -> float:
    mean = np.average(values, weights=weights)
    return float(np.average((values - mean) ** 2, weights=weights))
