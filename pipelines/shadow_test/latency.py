"""Estimate by how much a challenger is slower than the champion, from pairs of times, with an interval.

A pair has the times of both versions for the same request, or for the same minute. Times that follow each other are
related: a busy moment slows down many requests, of both versions. So the pairs are cut, in the order of time, into
blocks, and the blocks are the units of the gate's estimate for groups of related rows (`estimate_by_groups`). With 20
blocks and an alpha of 5 %, each end of the interval missed the true difference in 3 to 6 % of simulated shadows. These
had 1,000 or 8,000 requests, log-normal times, lasting load (autocorrelation 0.9) and rare peaks; the statistics were
average, median and p99.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.groups import estimate_by_groups
from pipelines.evaluation.statistics.inputs import Array
from pipelines.evaluation.statistics.sums import WeightedMetric, build_quantile_metric
from pipelines.shadow_test.limits import ShadowLimits

MAX_BLOCKS = 20
"""Largest number of blocks."""
MIN_REQUESTS, MIN_MINUTES = 100, 5
"""Smallest number of pairs of requests, and of minutes, from which an interval is computed."""
MIN_REQUESTS_BEYOND = 10
"""Smallest number of requests that have to be slower than a percentile: p99 needs 1,000 requests."""


@dataclass(frozen=True)
class PairedTimes:
    """Times of both versions, milliseconds, in the order of time. All arrays have the same length."""

    champion: Array
    challenger: Array
    weights: Array | None = None
    """Number of requests in each minute, if a pair has the statistics of a minute; None if a pair has the times of a
    request."""

    @property
    def unit(self) -> str:
        """What the pairs are, in the plural."""
        return "requests" if self.weights is None else "minutes"

    def get_min_pairs(self, statistic: str) -> int:
        """Return the smallest number of pairs from which an interval of the statistic is computed."""
        if self.weights is not None:
            return MIN_MINUTES
        share_beyond = 1.0 if statistic == "Average" else 1 - _read_share(statistic)
        return max(MIN_REQUESTS, round(MIN_REQUESTS_BEYOND / share_beyond))


def estimate_increase(times: PairedTimes, limits: ShadowLimits) -> tuple[Estimate, float, float]:
    """Estimate how much slower the challenger is, by `latency_statistic`.

    The bound depends on the champion's times, so it is not exact. For this reason, the interval is computed for the
    increase minus the bound, and the bound is then added. So the increase can be compared with the bound as if
    the bound were exact.

    Returns:
        The increase, milliseconds, negative if the challenger is faster; its bound; and the champion's value.
    """
    champion_metric, challenger_metric = (
        _make_metric(values, times.weights, limits.latency_statistic) for values in (times.champion, times.challenger)
    )
    count = len(times.champion)
    groups = np.arange(count) * min(MAX_BLOCKS, count) // count

    def compute_excess(weights: Array) -> Array:
        champion_ms = champion_metric(weights)
        max_challenger_ms = np.maximum(limits.max_latency_ratio * champion_ms, champion_ms + limits.latency_margin_ms)
        return challenger_metric(weights) - max_challenger_ms

    excess = estimate_by_groups([compute_excess], groups, limits.alpha)
    champion_value = float(champion_metric(np.ones((1, count)))[0])
    bound = max((limits.max_latency_ratio - 1) * champion_value, limits.latency_margin_ms)
    increase = Estimate(excess.value + bound, excess.low + bound, excess.high + bound, excess.se, count, excess.groups)
    return increase, bound, champion_value


def _make_metric(values: Array, counts: Array | None, statistic: str) -> WeightedMetric:
    """Return the statistic as a function of weights. The statistics of minutes are averaged over their requests."""
    if counts is None and statistic != "Average":
        return build_quantile_metric(values, _read_share(statistic))
    factors = np.ones(len(values)) if counts is None else counts
    return lambda weights: np.asarray((weights @ (factors * values)) / (weights @ factors))


def _read_share(statistic: str) -> float:
    """Return the share of requests that are at most as slow as a percentile: 0.99 for p99."""
    return float(statistic.removeprefix("p")) / 100
