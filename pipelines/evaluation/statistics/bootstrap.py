"""Estimate any metric, and its difference between two models on the same rows, with intervals.

Up to `MAX_FULL_ROWS` rows: the percentile bootstrap (Efron 1979), stratified by binary label or class. For more rows:
the bag of little bootstraps (Kleiner, Talwalkar, Sarkar & Jordan 2014, JRSS B 76). With groups of related rows, nothing
is drawn: each group is left out once (the jackknife of the module `groups`). The calibration error of one binary model
has its own method, in the module `calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import edges, resampling
from pipelines.evaluation.statistics.calibration import estimate_ece
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.groups import estimate_by_groups, number_groups
from pipelines.evaluation.statistics.inputs import Array, find_strata, validate_alpha, validate_labels
from pipelines.evaluation.statistics.sums import MetricBuilder, WeightedMetric
from pipelines.evaluation.statistics.weighted import Metric, find_metric

DRAWS = 5_000
"""Number of draws, unless the caller gives another number."""
MAX_FULL_ROWS = 20_000
"""Largest number of rows for which the percentile bootstrap is used. 5,000 draws then take seconds."""
SUBSETS = 20
"""Number of subsets in the bag of little bootstraps."""
EXPONENT = 0.7
"""A subset has rows ** EXPONENT rows, after Kleiner et al."""
MIN_SUBSET_LABEL_ROWS = 1_000
"""Smallest number of rows of each label or class in a subset: a rare label must not vanish. If there are fewer rows,
all of them are used."""


def estimate_metric(
    label: Array,
    score: Array,
    metric: str | MetricBuilder | Metric,
    *,
    alpha: float,
    seed: int,
    draws: int = DRAWS,
    groups: Array | None = None,
) -> Estimate:
    """Estimate the metric of a score. The same seed gives the same interval.

    Args:
        label: shape (rows,). For a binary metric: 0 or 1, both present. For a metric of a regression: finite numbers
            that are not all equal. For a metric of a multiclass model: indices of classes.
        score: shape (rows,), finite; a probability for log_loss, brier and ece. For a multiclass model, shape (rows,
            classes).
        metric: name of a metric of `weighted.METRICS`; or a `Metric`, for example the user's own; or a function that
            makes a binary metric.
        alpha: error probability of each end of the interval; see `Estimate`.
        seed: seed of the draws.
        draws: number of draws, 20 or more; if there are subsets, that of all subsets together.
        groups: shape (rows,). Rows with the same value are related, such as those of a day; the values are ordered by
            time. With groups, nothing is drawn. The interval is infinite if the metric cannot be computed when one of
            the groups is left out.

    Raises:
        DataError: the rows are not valid, there are fewer than two groups, or the metric is not a number in a draw. A
            retry cannot help.
        SpecError: the metric, alpha or the number of draws is not valid. A retry cannot help.
    """
    if metric == "ece":
        return estimate_ece(label, score, alpha=alpha, groups=groups)
    return _estimate(label, [score], metric, alpha, seed, draws, groups)


def estimate_difference(
    label: Array,
    candidate: Array,
    champion: Array,
    metric: str | MetricBuilder | Metric,
    *,
    alpha: float,
    seed: int,
    draws: int = DRAWS,
    groups: Array | None = None,
) -> Estimate:
    """Estimate the candidate's metric minus the champion's; each draw takes the same rows for both.

    `candidate` and `champion` are the scores of the two models. The other arguments and the errors are those of
    `estimate_metric`.
    """
    return _estimate(label, [candidate, champion], metric, alpha, seed, draws, groups)


def _estimate(
    label: Array,
    scores: list[Array],
    metric: str | MetricBuilder | Metric,
    alpha: float,
    seed: int,
    draws: int,
    groups: Array | None,
) -> Estimate:
    definition = find_metric(metric)
    truth, valid_scores = validate_labels(definition.task, label, *scores)
    build, random, rows = definition.build, np.random.default_rng(seed), len(truth)
    if draws < SUBSETS:
        raise SpecError(f"{draws} draws are too few for an interval: give {SUBSETS} or more.")
    validate_alpha(alpha)
    if groups is not None:
        estimate = estimate_by_groups(
            [build(truth, score) for score in valid_scores], number_groups(groups, rows), alpha
        )
    else:
        estimate = _estimate_by_draws(build, truth, valid_scores, alpha, draws, random)
    if not definition.is_share or (len(valid_scores) == 2 and np.array_equal(valid_scores[0], valid_scores[1])):
        return estimate
    shares = [_compute_value(build, truth, [score]) for score in valid_scores]
    trials = estimate.groups or min(len(stratum) for stratum in find_strata(truth))
    return edges.fit_to_range(edges.widen_at_edge(estimate, shares, trials, alpha), shares, alpha)


def _estimate_by_draws(
    build: MetricBuilder, label: Array, scores: list[Array], alpha: float, draws: int, random: np.random.Generator
) -> Estimate:
    value = _compute_value(build, label, scores)
    if len(label) <= MAX_FULL_ROWS:
        statistic = _subtract([build(label, score) for score in scores])
        samples = _compute_samples(statistic, resampling.draw_stratified(label, draws, random))
    else:
        samples = value + _sample_errors(build, label, scores, draws, random)
    low, high = np.quantile(samples, (alpha, 1 - alpha))
    return Estimate(value, float(low), float(high), float(np.std(samples, ddof=1)), len(label))


def _compute_value(build: MetricBuilder, label: Array, scores: list[Array]) -> float:
    """Compute the metric of one score, or the difference for two scores. Only one metric is in memory at a time."""
    ones = np.ones((1, len(label)))
    values = [float(_compute_samples(build(label, score), [ones])[0]) for score in scores]
    return values[0] if len(values) == 1 else values[0] - values[1]


def _subtract(metrics: Sequence[WeightedMetric]) -> WeightedMetric:
    """Return the metric if there is one; if there are two, return the first minus the second."""
    if len(metrics) == 1:
        return metrics[0]
    return lambda weights: metrics[0](weights) - metrics[1](weights)


def _sample_errors(
    build: MetricBuilder, label: Array, scores: list[Array], draws: int, random: np.random.Generator
) -> Array:
    """Compute how far each draw is from the value of its subset, by the bag of little bootstraps.

    A draw from a subset has as many rows as the whole sample, so it varies as much as a draw from all rows. The
    draw is compared with the value of its own subset, because subsets differ by more than the width of the interval.
    The errors of all subsets are pooled: one subset has too few draws for a percentile far in the tail.
    """
    strata = find_strata(label)
    totals = [len(stratum) for stratum in strata]
    sizes = [_count_subset_rows(total, len(label)) for total in totals]
    errors = []
    for number in range(SUBSETS):
        subset = [random.choice(stratum, size, replace=False) for stratum, size in zip(strata, sizes, strict=True)]
        rows = np.sort(np.concatenate(subset))
        truth = label[rows]
        statistic = _subtract([build(truth, score[rows]) for score in scores])
        mean_weights = np.empty(len(truth))
        for stratum, total in zip(find_strata(truth), totals, strict=True):
            mean_weights[stratum] = total / len(stratum)
        subset_draws = (draws + number) // SUBSETS
        samples = _compute_samples(statistic, resampling.draw_from_subset(truth, totals, subset_draws, random))
        errors.append(samples - statistic(mean_weights[np.newaxis])[0])
    return np.concatenate(errors)


def _count_subset_rows(label_rows: int, rows: int) -> int:
    """Return how many rows of a stratum with `label_rows` rows are in a subset of all `rows`."""
    return min(label_rows, max(MIN_SUBSET_LABEL_ROWS, round(label_rows / math.pow(rows, 1 - EXPONENT))))


def _compute_samples(statistic: WeightedMetric, weights: Iterable[Array]) -> Array:
    """Compute the statistic of each draw; raise a DataError if it is not a number in a draw."""
    samples = np.concatenate([statistic(batch) for batch in weights])
    if invalid_draws := int((~np.isfinite(samples)).sum()):
        raise DataError(
            f"the metric is not a number in {invalid_draws} of {len(samples)} draws: a label is too rare in them."
        )
    return samples
