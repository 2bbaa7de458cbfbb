"""Bootstrap intervals of any metric, and of its difference between two models on the same rows.

Up to `FULL_ROWS` rows: the percentile bootstrap (Efron 1979), stratified by label. Beyond: the bag of little bootstraps
(Kleiner, Talwalkar, Sarkar & Jordan 2014, JRSS B 76). With groups: whole groups are drawn (the cluster bootstrap,
Davison & Hinkley 1997, 3.8), for rows that are not independent of one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import resampling
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, labelled, level
from pipelines.evaluation.statistics.sums import Pairs, Sums
from pipelines.evaluation.statistics.weighted import Maker, Weighted, maker

DRAWS = 5_000
FULL_ROWS = 20_000
"""Most rows whose draws are made whole: 5,000 of them are seconds."""
SUBSETS = 20
EXPONENT = 0.7
"""A subset of the bag has rows ** EXPONENT rows, after Kleiner et al."""
LEAST = 1_000
"""Fewest rows of a label in a subset; all, where there are fewer: so a rare label keeps its weight."""
MOST_GROUPS = 1_000
"""Most groups of which a table of pairs is made: 8 MB."""


def interval(
    label: Array,
    score: Array,
    metric: str | Maker,
    *,
    alpha: float,
    seed: int,
    draws: int = DRAWS,
    groups: Array | None = None,
) -> Estimate:
    """The metric of a score. The same seed gives the same ends.

    Args:
        label: shape (rows,), 0 or 1.
        score: shape (rows,); a probability, where the metric asks for one.
        metric: of `weighted.METRICS`, or a maker like those.
        alpha: of each end; see `Estimate`.
        seed: of the draws.
        draws: how many; over the bag's subsets together.
        groups: shape (rows,), what is drawn as a whole (a day). A caller's own metric, pr_auc, and more than a thousand
            groups cost draws x rows, whatever the rows.

    Raises:
        DataError: see `labelled`; fewer than two groups; the metric is not a number in a draw.
        SpecError: the metric, alpha or the number of draws is not one.
    """
    return _estimate(label, [score], metric, alpha, seed, draws, groups)


def paired(
    label: Array,
    candidate: Array,
    champion: Array,
    metric: str | Maker,
    *,
    alpha: float,
    seed: int,
    draws: int = DRAWS,
    groups: Array | None = None,
) -> Estimate:
    """The candidate's metric less the champion's: both in every draw on the same rows. Arguments as of `interval`."""
    return _estimate(label, [candidate, champion], metric, alpha, seed, draws, groups)


def _estimate(
    label: Array,
    scores: list[Array],
    metric: str | Maker,
    alpha: float,
    seed: int,
    draws: int,
    groups: Array | None,
) -> Estimate:
    truth, values = labelled(label, *scores)
    make, random, rows = maker(metric), np.random.default_rng(seed), len(truth)
    if draws < SUBSETS:
        raise SpecError(f"{draws} draws tell too little of how a metric varies.")
    value = _value(make, truth, values)
    if groups is not None:
        drawn = _of_groups([make(truth, score) for score in values], _numbered(groups, rows), draws, random)
    elif rows <= FULL_ROWS:
        whole = _difference([make(truth, score) for score in values])
        drawn = _drawn(whole, resampling.stratified(truth, draws, random))
    else:
        drawn = value + _errors(make, truth, values, draws, random)
    low, high = np.quantile(drawn, (level(alpha), 1 - alpha))
    return Estimate(value, float(low), float(high), float(np.std(drawn, ddof=1)), rows)


def _value(make: Maker, label: Array, scores: list[Array]) -> float:
    """The statistic of all rows. One score after the other: the memory of one is enough."""
    once = np.ones((1, len(label)))
    of_each = [float(_drawn(make(label, score), [once])[0]) for score in scores]
    return of_each[0] if len(of_each) == 1 else of_each[0] - of_each[1]


def _difference(parts: Sequence[Weighted]) -> Weighted:
    """The metric of the one score, or the first's less the second's."""
    if len(parts) == 1:
        return parts[0]
    return lambda weights: parts[0](weights) - parts[1](weights)


def _of_groups(parts: Sequence[Weighted], groups: Array, draws: int, random: np.random.Generator) -> Array:
    """The statistic of each draw of whole groups: by the groups where it can be told of them, else by their rows."""
    number = int(groups.max()) + 1
    weights = resampling.whole(number, len(groups), draws, random)
    able = [part for part in parts if isinstance(part, Sums | Pairs)]
    if len(able) == len(parts) and number <= MOST_GROUPS:
        return _drawn(_difference([part.grouped(groups, number) for part in able]), weights)
    return _drawn(_difference(parts), (batch[:, groups] for batch in weights))


def _errors(make: Maker, label: Array, scores: list[Array], draws: int, random: np.random.Generator) -> Array:
    """How far draws are from the value of what they were drawn from, by the bag of little bootstraps.

    Each subset's draws are as large as all the rows, so they vary as the whole does. They are centred at their own
    subset's value: its place among the subsets is an accident, and would move the interval by more than its width.
    The subsets' errors are put together rather than the ends averaged: ends far out need more draws than one has.
    """
    places = (np.flatnonzero(label), np.flatnonzero(~label))
    totals = [len(one) for one in places]
    found = []
    for part in range(SUBSETS):
        rows = np.sort(
            np.concatenate([random.choice(one, _size(len(one), len(label)), replace=False) for one in places])
        )
        truth = label[rows]
        of = _difference([make(truth, score[rows]) for score in scores])
        even = np.where(truth, totals[0] / truth.sum(), totals[1] / (~truth).sum())
        share = (draws + part) // SUBSETS
        found.append(_drawn(of, resampling.spread(truth, totals, share, random)) - of(even[np.newaxis])[0])
    return np.concatenate(found)


def _size(rows: int, of: int) -> int:
    """Rows of a label in a subset."""
    return min(rows, max(LEAST, round(rows / math.pow(of, 1 - EXPONENT))))


def _numbered(groups: Array, rows: int) -> Array:
    names, numbers = np.unique(np.asarray(groups), return_inverse=True)
    if numbers.shape != (rows,):
        raise DataError(f"there are {rows} labels, but groups of shape {np.shape(groups)}.")
    if len(names) < 2:
        raise DataError("all rows are of one group: how groups vary cannot be told.")
    return np.asarray(numbers)


def _drawn(statistic: Weighted, weights: Iterable[Array]) -> Array:
    values = np.concatenate([statistic(batch) for batch in weights])
    if wrong := int((~np.isfinite(values)).sum()):
        raise DataError(f"the metric is not a number in {wrong} of {len(values)} draws: a label is too rare in them.")
    return values
