"""Build the metrics of a regression as functions of weights of the rows.

Each builder takes labels (numbers) and scores (numbers, or predicted quantiles), and returns a function of weights of
shape (draws, rows). A draw is one vector of weights, such as a resample of the bootstrap. With weights of 1, the metric
equals the same metric of scikit-learn, if scikit-learn has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.sums import (
    ALL_ROWS,
    RowValues,
    WeightedMetric,
    WeightedSums,
    build_mean_metric,
    build_quantile_metric,
    divide,
)


def build_rmse_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the root of the mean squared error, in units of the label."""
    terms: list[RowValues] = [(ALL_ROWS, (score - label) ** 2), (ALL_ROWS, np.ones(len(label)))]
    return WeightedSums(terms, lambda total, rows: np.sqrt(divide(total, rows, np.nan)))


def build_mae_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean absolute error, in units of the label."""
    return build_mean_metric(np.abs(score - label))


def build_bias_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the mean of score minus label: above 0 if the scores are too high."""
    return build_mean_metric(score - label)


def build_r2_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the coefficient of determination: 1 minus the mean squared error as a share of the label's variance."""
    # If the mean were not subtracted, the difference of two large sums in `_combine_r2` would lose digits.
    deviations = label - label.mean()
    terms: list[RowValues] = [
        (ALL_ROWS, (score - label) ** 2),
        (ALL_ROWS, deviations**2),
        (ALL_ROWS, deviations),
        (ALL_ROWS, np.ones(len(label))),
    ]
    return WeightedSums(terms, _combine_r2)


def build_median_ae_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the median absolute error, in units of the label. If two errors are in the middle, take their mean.

    For a draw whose weights are all 0, the metric is NaN.
    """
    return build_quantile_metric(np.abs(score - label), 0.5)


def build_pinball_metric(label: Array, score: Array, quantiles: Sequence[float]) -> WeightedMetric:
    """Build the mean pinball loss of quantiles (Koenker & Bassett 1978), in units of the label.

    Args:
        label: shape (rows,).
        score: predicted quantiles, shape (rows, quantiles).
        quantiles: the quantiles that the columns predict.
    """
    losses = [
        np.maximum(quantile * errors, (quantile - 1) * errors)
        for quantile, errors in zip(quantiles, (label[:, np.newaxis] - score).T, strict=True)
    ]
    return build_mean_metric(np.mean(losses, axis=0))


def build_coverage_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the share of labels between two predicted quantiles, ends included; `score` has the shape (rows, 2)."""
    return build_mean_metric(((score[:, 0] <= label) & (label <= score[:, 1])).astype(np.float64))


def build_share_below_metric(label: Array, score: Array) -> WeightedMetric:
    """Build the share of labels at or below the predicted quantile; `score` has the shape (rows, 1)."""
    return build_mean_metric((label <= score[:, 0]).astype(np.float64))


def _combine_r2(squared_error: Array, squared_deviation: Array, deviation: Array, rows: Array) -> Array:
    """Compute R2 from the weighted sums of the terms of `build_r2_metric`."""
    variation = squared_deviation - divide(deviation**2, rows, np.nan)
    return 1 - divide(squared_error, variation, np.nan)
