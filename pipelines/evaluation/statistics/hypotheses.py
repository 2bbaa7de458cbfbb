"""Test hypotheses: McNemar's test, Holm's correction, the number of rows that a test needs, decisions by intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import binomtest, norm

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.inputs import Array, validate_alpha, validate_rows

Decision = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class McNemarResult:
    """Result of McNemar's test of two classifiers on the same rows."""

    candidate_only: int
    """Rows on which only the candidate is right."""
    champion_only: int
    """Rows on which only the champion is right."""
    p_value: float
    """Two-sided p-value of the hypothesis that both are right equally often."""
    rows: int
    """Number of rows."""


def run_mcnemar_test(label: Array, candidate: Array, champion: Array, threshold: float) -> McNemarResult:
    """Test whether two models are right equally often at a threshold (McNemar 1947, Psychometrika 12).

    Uses the exact binomial test of the rows on which only one model is right: it needs no correction when they are
    few, and is fast when they are many. Without such rows, the p-value is 1.

    Args:
        label: shape (rows,), 0 or 1, both present.
        candidate: shape (rows,), finite scores.
        champion: shape (rows,), finite scores.
        threshold: a row with this score or a higher one is predicted as 1.

    Raises:
        DataError: the rows are not valid. A retry cannot help.
    """
    truth, scores = validate_rows(label, candidate, champion)
    candidate_right, champion_right = ((score >= threshold) == truth for score in scores)
    candidate_only = int((candidate_right & ~champion_right).sum())
    champion_only = int((champion_right & ~candidate_right).sum())
    total = candidate_only + champion_only
    p_value = float(binomtest(candidate_only, total).pvalue) if total else 1.0
    return McNemarResult(candidate_only, champion_only, p_value, len(truth))


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for the number of tests (Holm 1979, Scandinavian Journal of Statistics 6).

    If each hypothesis with an adjusted p-value of at most alpha is rejected, the probability of any false rejection is
    at most alpha, however the tests depend on each other.

    Returns:
        The adjusted p-values, in the order of `p_values`.

    Raises:
        DataError: a p-value is not between 0 and 1. A retry cannot help.
    """
    unadjusted_values = np.asarray(p_values, dtype=np.float64)
    if not ((unadjusted_values >= 0) & (unadjusted_values <= 1)).all():
        raise DataError("a p-value is not between 0 and 1.")
    order = np.argsort(unadjusted_values, kind="stable")
    steps = np.maximum.accumulate(unadjusted_values[order] * np.arange(len(unadjusted_values), 0, -1))
    adjusted_values = np.empty_like(unadjusted_values)
    adjusted_values[order] = np.minimum(steps, 1.0)
    return [float(p_value) for p_value in adjusted_values]


def compute_rows_needed(se: float, rows: int, effect: float, alpha: float, power: float) -> int:
    """Compute how many rows a one-sided test needs to detect a true difference of `effect`.

    Normal approximation (Lachin 1981, Controlled Clinical Trials 2): effect = (z[alpha] + z[1 - power]) * se, and the
    standard error falls as 1 / sqrt(rows).

    Args:
        se: standard error of the difference on `rows` rows.
        rows: number of rows from which `se` was computed.
        effect: true difference minus the bound, above 0.
        alpha: significance level of the one-sided test.
        power: probability of detection, between alpha and 1.

    Raises:
        DataError: the standard error is not a finite number. A retry cannot help.
        SpecError: the effect, alpha or the power is out of range. A retry cannot help.
    """
    if not (math.isfinite(se) and se >= 0):
        raise DataError(f"the standard error is {se}: the number of rows needed cannot be computed.")
    if not (math.isfinite(effect) and effect > 0):
        raise SpecError(f"the effect is {effect}, not above 0.")
    if not validate_alpha(alpha) < power < 1:
        raise SpecError(f"the power is {power}, not between alpha and 1.")
    factor = (float(norm.isf(alpha)) + float(norm.ppf(power))) * se / effect
    return max(1, math.ceil(rows * factor * factor))


def decide(estimate: Estimate, bound: float, relevant_effect: float) -> Decision:
    """Decide by an interval whether a value is at least `bound`.

    Args:
        estimate: value with its interval; negate it where less is better.
        bound: smallest allowed value.
        relevant_effect: smallest distance above the bound that is worth having, 0 or more.

    Returns:
        passed: the low end is at least the bound. failed: the high end is below bound + relevant_effect: no effect in
        the interval is worth having. undecided: more rows are needed, or an end is not a number.
    """
    if estimate.low >= bound:
        return "passed"
    return "failed" if estimate.high < bound + relevant_effect else "undecided"
