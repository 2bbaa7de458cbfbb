"""Tests, their correction where there are several, the rows that a test needs, and what an interval decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import binomtest, norm

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, labelled, level

Decision = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class McNemar:
    """Two classifiers on the same rows; see `mcnemar`."""

    candidate_only: int
    """Rows that the candidate has right and the champion wrong."""
    champion_only: int
    """Rows that the champion has right and the candidate wrong."""
    p_value: float
    """Two-sided: how likely so uneven a split of these rows is, if both are right equally often."""
    rows: int


def mcnemar(label: Array, candidate: Array, champion: Array, threshold: float) -> McNemar:
    """Whether two models, made classifiers by a threshold, are right equally often (McNemar 1947, Psychometrika 12).

    Always the exact binomial test of the rows on which one alone is right: it needs no correction for few of them,
    and is fast for many. Where there are none, the p-value is 1.

    Raises:
        DataError: see `labelled`.
    """
    truth, (one, other) = labelled(label, candidate, champion)
    right, right_other = (one >= threshold) == truth, (other >= threshold) == truth
    gained, lost = int((right & ~right_other).sum()), int((right_other & ~right).sum())
    p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return McNemar(gained, lost, p_value, len(truth))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number, in their order: refuse those at most alpha.

    Holm (1979), Scandinavian Journal of Statistics 6: the chance of any false refusal is at most alpha, however the
    tests depend on one another.

    Raises:
        DataError: one is not between 0 and 1.
    """
    found = np.asarray(p_values, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise DataError("a p-value is not between 0 and 1.")
    order = np.argsort(found, kind="stable")
    steps = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    adjusted = np.empty_like(found)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(one) for one in adjusted]


def rows_needed(se: float, rows: int, effect: float, alpha: float, power: float) -> int:
    """Rows at which a true difference of `effect` is found, one-sided at alpha, with this power.

    The normal approximation (Lachin 1981, Controlled Clinical Trials 2): effect = (z[alpha] + z[1 - power]) * se, and
    the standard error falls as 1 / sqrt(rows).

    Args:
        se: standard error of the difference on `rows` rows.
        rows: that it was measured on.
        effect: above 0: the true difference less the bound that it is held against.
        alpha: of the one-sided test.
        power: chance to find it, between alpha and 1.

    Raises:
        DataError: the standard error is not a number.
        SpecError: the effect, alpha or the power is not one.
    """
    if not (math.isfinite(se) and se >= 0):
        raise DataError(f"the standard error is {se}: the rows that are needed cannot be told.")
    if not (math.isfinite(effect) and effect > 0):
        raise SpecError(f"an effect of {effect} cannot be found: it must be above 0.")
    if not level(alpha) < power < 1:
        raise SpecError(f"the power is {power}, not between alpha and 1.")
    times = (float(norm.isf(alpha)) + float(norm.ppf(power))) * se / effect
    return max(1, math.ceil(rows * times * times))


def decide(estimate: Estimate, bound: float, matters: float) -> Decision:
    """What an interval says of a bound, where greater is better (turn the sign of the others: `-estimate`).

    Passed where even the low end keeps the bound; failed where nothing is left in the interval that would matter, that
    is, `matters` above the bound; otherwise more rows are needed. What is not a number is undecided.
    """
    if estimate.low >= bound:
        return "passed"
    return "failed" if estimate.high < bound + matters else "undecided"
