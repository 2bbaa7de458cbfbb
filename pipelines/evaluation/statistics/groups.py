"""Estimate a metric with its interval, if rows are related within groups, such as the flights of a day.

The groups are the units. Each group is left out once. The pseudo-values of this jackknife (Miller 1974, Biometrika 61)
say how much each group changes the metric. Days that follow each other may be related too, because weather lasts. So
the variance is estimated from the slow changes of the pseudo-values in the order of the groups: the variance is the
mean square of the first cosine coefficients of the pseudo-values (the equal-weighted cosine estimator: Lazarus, Lewis,
Stock & Watson 2018, Journal of Business & Economic Statistics 36). The interval has quantiles of the t distribution
with as many degrees of freedom as coefficients. It is also valid for few groups, and for groups that are not related to
each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy.stats import sem

from pipelines.errors import DataError
from pipelines.evaluation.statistics import resampling
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.sums import MeanOfMetrics, WeightedAuc, WeightedMetric, WeightedSums

MAX_TABLE_GROUPS = 1_000
"""Largest number of groups for which metrics are computed from sums by group. The AUC's table of all pairs of groups
then takes 8 MB. For more groups, metrics are computed from the rows."""
COEFFICIENT_FACTOR = 0.4
"""Number of coefficients, as a multiple of groups ** (2 / 3), as Lazarus et al. recommend. More coefficients make a
narrower interval, which is too narrow if days are related."""


def number_groups(groups: Array, rows: int) -> Array:
    """Number the groups from 0 in the order of their values; return the number of each row's group.

    Raises:
        DataError: there is not one group for each row, or all rows are in one group. A retry cannot help.
    """
    values, numbers = np.unique(np.asarray(groups), return_inverse=True)
    if numbers.shape != (rows,):
        raise DataError(f"there are {rows} labels, but groups of shape {np.shape(groups)}.")
    if len(values) < 2:
        raise DataError("all rows are in one group: the variance between groups cannot be estimated.")
    return np.asarray(numbers)


def estimate_by_groups(
    metrics: Sequence[WeightedMetric], groups: Array, alpha: float, *, is_autocorrelated: bool = True
) -> Estimate:
    """Estimate one metric, or the first metric minus the second, with an interval for groups of related rows.

    The interval is infinite if the metric cannot be computed without one of the groups.

    Args:
        metrics: one or two metrics, as functions of weights of rows.
        groups: group of each row, numbered from 0; each number occurs.
        alpha: error probability of each end of the interval.
        is_autocorrelated: whether groups that follow each other may be related. If not, the variance is estimated from
            the deviations of all groups from their mean, which leaves more degrees of freedom.
    """
    group_count = int(groups.max()) + 1
    samples = _leave_out_groups(metrics, groups, group_count)
    degrees_of_freedom, se = count_degrees_of_freedom(group_count) if is_autocorrelated else group_count - 1, math.inf
    if np.isfinite(samples).all():
        values = compute_pseudo_values(samples)
        se = float(np.linalg.norm(compute_errors(values)) if is_autocorrelated else sem(values))
    return Estimate.from_standard_error(
        float(samples[0]), se, len(groups), alpha, -math.inf, math.inf, group_count, degrees_of_freedom
    )


def compute_pseudo_values(samples: Array) -> Array:
    """Compute the jackknife's pseudo-value of each group; their mean is the metric without its bias of order 1/groups.

    Args:
        samples: first the metric of all rows, then the metric without each group; shape (groups + 1, ...).
    """
    group_count = len(samples) - 1
    return np.asarray(group_count * samples[0] - (group_count - 1) * samples[1:])


def compute_errors(values: Array) -> Array:
    """Compute independent parts of the error of the mean of the values. The standard error is the norm of these parts.

    Args:
        values: one value for each group in order; shape (groups, ...).

    Returns:
        Shape (coefficients, ...). For a sum of several means, add up the parts of the means.
    """
    group_count, coefficients = len(values), count_degrees_of_freedom(len(values))
    times = (np.arange(group_count) + 0.5) / group_count
    cosines = math.sqrt(2 / group_count) * np.cos(np.pi * np.outer(np.arange(1, coefficients + 1), times))
    return np.asarray(cosines @ (values - values.mean(axis=0)) / math.sqrt(coefficients * group_count))


def count_degrees_of_freedom(group_count: int) -> int:
    """Return the number of cosine coefficients for this number of groups: the degrees of freedom of the interval."""
    return min(group_count - 1, max(2, round(COEFFICIENT_FACTOR * math.pow(group_count, 2 / 3))))


def build_group_metrics(metrics: Sequence[WeightedMetric], groups: Array, group_count: int) -> list[WeightedMetric]:
    """Return each metric as a function of weights of groups.

    The functions use sums by group if all metrics allow it and there are at most `MAX_TABLE_GROUPS` groups, else the
    rows.
    """
    groupable_metrics = [metric for metric in metrics if isinstance(metric, WeightedSums | WeightedAuc | MeanOfMetrics)]
    if len(groupable_metrics) == len(metrics) and group_count <= MAX_TABLE_GROUPS:
        return [metric.build_group_metric(groups, group_count) for metric in groupable_metrics]
    return [_build_metric_of_rows(metric, groups) for metric in metrics]


def _leave_out_groups(metrics: Sequence[WeightedMetric], groups: Array, group_count: int) -> Array:
    """Compute one metric, or the first minus the second: of all rows, then without each group; shape (groups + 1,)."""
    group_metrics = build_group_metrics(metrics, groups, group_count)
    samples = [
        np.concatenate([metric(weights) for weights in _yield_weights(group_count, len(groups))])
        for metric in group_metrics
    ]
    return samples[0] if len(samples) == 1 else samples[0] - samples[1]


def _yield_weights(group_count: int, rows: int) -> Iterable[Array]:
    """Yield batches of weights of groups: first all ones, then each group in turn has the weight 0."""
    size = resampling.compute_batch_size(rows)
    for start in range(-1, group_count, size):
        omitted_groups = np.arange(start, min(start + size, group_count))[:, np.newaxis]
        yield (omitted_groups != np.arange(group_count)).astype(np.float64)


def _build_metric_of_rows(metric: WeightedMetric, groups: Array) -> Callable[[Array], Array]:
    """Return the metric as a function of weights of groups: each row has the weight of its group."""
    return lambda weights: metric(weights[:, groups])
