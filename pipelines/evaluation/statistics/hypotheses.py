"""Correct for many tests (Holm), compute how many rows or groups a test needs, and decide by intervals."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import norm

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.estimate import Estimate, compute_quantile
from pipelines.evaluation.statistics.groups import count_degrees_of_freedom
from pipelines.evaluation.statistics.inputs import validate_alpha

Decision = Literal["passed", "failed", "undecided"]


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
    ordered_values = np.maximum.accumulate(unadjusted_values[order] * np.arange(len(unadjusted_values), 0, -1))
    adjusted_values = np.empty_like(unadjusted_values)
    adjusted_values[order] = np.minimum(ordered_values, 1.0)
    return [float(p_value) for p_value in adjusted_values]


def compute_rows_needed(se: float, rows: int, effect: float, alpha: float, power: float) -> int:
    """Compute how many rows a one-sided test needs to detect that a true difference is `effect` above the bound.

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
    _validate_test(se, effect, alpha, power)
    factor = (float(norm.isf(alpha)) + float(norm.ppf(power))) * se / effect
    return max(1, math.ceil(rows * factor * factor))


def compute_groups_needed(se: float, groups: int, effect: float, alpha: float, power: float) -> int:
    """Compute how many groups a one-sided test needs to detect that a true difference is `effect` above the bound.

    This is `compute_rows_needed` with quantiles of the t distribution, whose degrees of freedom depend on the result.

    Args:
        se: standard error of the difference on `groups` groups.
        groups: number of groups from which `se` was computed.
        effect: true difference minus the bound, above 0.
        alpha: significance level of the one-sided test.
        power: probability of detection, between alpha and 1.

    Raises:
        DataError: the standard error is not a finite number. A retry cannot help.
        SpecError: the effect, alpha or the power is out of range. A retry cannot help.
    """
    _validate_test(se, effect, alpha, power)

    def is_enough(count: int) -> bool:
        # An interval by groups has one degree of freedom for each cosine coefficient.
        degrees_of_freedom = count_degrees_of_freedom(count)
        factor = compute_quantile(alpha, degrees_of_freedom) + compute_quantile(1 - power, degrees_of_freedom)
        return factor * se * math.sqrt(groups / count) <= effect

    # Find the smallest number that is enough: by doubling an upper limit, then by bisection.
    upper_count = 2
    while not is_enough(upper_count):
        upper_count *= 2
    return upper_count // 2 + bisect.bisect_left(range(upper_count // 2, upper_count), True, key=is_enough)


def decide(estimate: Estimate, bound: float, relevant_effect: float) -> Decision:
    """Decide by an interval whether a value is at least `bound`.

    Args:
        estimate: value with its interval; negate the estimate if less is better.
        bound: smallest allowed value.
        relevant_effect: smallest relevant distance above the bound, 0 or more.

    Returns:
        passed: the low end is at least the bound. failed: the high end is below bound + relevant_effect, so no value in
        the interval is relevantly above the bound. undecided: more rows are needed, or an end is not a number.
    """
    if estimate.low >= bound:
        return "passed"
    return "failed" if estimate.high < bound + relevant_effect else "undecided"


def _validate_test(se: float, effect: float, alpha: float, power: float) -> None:
    if not (math.isfinite(se) and se >= 0):
        raise DataError(f"the standard error is {se}: the number of rows needed cannot be computed.")
    if not (math.isfinite(effect) and effect > 0):
        raise SpecError(f"the effect is {effect}, not above 0.")
    if not validate_alpha(alpha) < power < 1:
        raise SpecError(f"the power is {power}, not between alpha and 1.")
