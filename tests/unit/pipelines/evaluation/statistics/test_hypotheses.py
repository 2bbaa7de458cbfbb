"""Test the correction for many tests, the decision and the number of rows needed."""

import itertools
import math

import numpy as np
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import (
    adjust_p_values,
    compute_groups_needed,
    compute_rows_needed,
    decide,
)


def reject_step_down(p_values: list[float], alpha: float) -> set[int]:
    """Return the indices that Holm's procedure rejects at alpha, step by step, as in his paper."""
    rejected: set[int] = set()
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        rejected.add(index)
    return rejected


def test_holm_rejects_the_same_as_the_step_down_procedure() -> None:
    random = np.random.default_rng(1)
    for size, alpha in itertools.product((1, 2, 5, 9), (0.001, 0.01, 0.05, 0.3)):
        for _ in range(50):
            p_values = (random.random(size) ** 4).tolist()
            rejected = {index for index, p_value in enumerate(adjust_p_values(p_values)) if p_value <= alpha}
            assert rejected == reject_step_down(p_values, alpha)


def test_holm_gives_known_values() -> None:
    # R's p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), in another order.
    assert adjust_p_values([0.03, 0.01, 0.05, 0.02, 0.04]) == pytest.approx([0.09, 0.05, 0.09, 0.08, 0.09])
    assert adjust_p_values([0.9, 0.6]) == [1.0, 1.0]
    assert adjust_p_values([0.01, 0.01]) == pytest.approx([0.02, 0.02])
    assert adjust_p_values([]) == []
    # Negative control: without the correction, the smallest would be rejected at 0.05.
    assert min(adjust_p_values([0.04, 0.5, 0.6])) > 0.05


@pytest.mark.parametrize("p_value", [-0.1, 1.1, math.nan])
def test_holm_refuses_invalid_p_values(p_value: float) -> None:
    with pytest.raises(DataError, match="p-value"):
        adjust_p_values([0.1, p_value])


def test_rows_needed_gives_a_known_case() -> None:
    # One mean of unit variance, effect 0.2, one-sided 0.05, power 0.8: (1.6449 + 0.8416)^2 / 0.04 = 154.6.
    assert compute_rows_needed(1 / math.sqrt(50), 50, 0.2, 0.05, 0.8) == 155
    assert compute_rows_needed(1 / math.sqrt(500), 500, 0.2, 0.05, 0.8) == 155
    assert compute_rows_needed(1 / math.sqrt(50), 50, 0.1, 0.05, 0.8) == 619
    assert compute_rows_needed(0.0, 50, 0.1, 0.05, 0.8) == 1


@pytest.mark.parametrize(
    ("se", "effect", "alpha", "power"),
    [
        (0.1, 0.0, 0.05, 0.8),
        (0.1, -1.0, 0.05, 0.8),
        (0.1, math.nan, 0.05, 0.8),
        (0.1, 0.1, 0.5, 0.8),
        (0.1, 0.1, 0.05, 1.0),
    ],
)
def test_rows_needed_refuses_values_out_of_range(se: float, effect: float, alpha: float, power: float) -> None:
    with pytest.raises(SpecError):
        compute_rows_needed(se, 100, effect, alpha, power)


@pytest.mark.parametrize("se", [math.nan, math.inf, -0.1])
def test_rows_needed_refuses_an_invalid_standard_error(se: float) -> None:
    with pytest.raises(DataError, match="standard error"):
        compute_rows_needed(se, 100, 0.1, 0.05, 0.8)


def test_groups_needed_has_the_quantiles_of_few_groups() -> None:
    # Per group, the deviation is 1 and the effect 1. 15 groups have round(0.4 * 15 ** (2 / 3)) = 2 degrees of freedom,
    # and the table of t has 2.920 + 1.061 = 3.981 there: 3.981 ** 2 = 15.85 groups are needed, so 16.
    assert compute_groups_needed(1 / math.sqrt(14), 14, 1.0, 0.05, 0.8) == 16
    # For many groups it equals the number of rows, which has normal quantiles.
    assert compute_groups_needed(0.001, 100, 0.0001, 0.05, 0.8) == pytest.approx(
        compute_rows_needed(0.001, 100, 0.0001, 0.05, 0.8), rel=0.02
    )
    assert compute_groups_needed(0.0, 14, 1.0, 0.05, 0.8) == 2


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (0.00, 0.02, "passed"),
        (0.001, 0.5, "passed"),
        (0.001, 0.002, "passed"),
        (-0.001, 0.02, "undecided"),
        (-0.001, 0.01, "undecided"),
        (-0.001, 0.0099, "failed"),
        (-0.5, -0.4, "failed"),
        (math.nan, math.nan, "undecided"),
    ],
)
def test_decides_by_the_ends_of_the_interval(low: float, high: float, decision: str) -> None:
    assert decide(Estimate(0.0, low, high, 0.01, 100), bound=0.0, relevant_effect=0.01) == decision


def test_a_negated_estimate_decides_where_less_is_better() -> None:
    worse = Estimate(0.05, 0.04, 0.06, 0.005, 100)
    assert decide(worse, 0.0, 0.01) == "passed"
    assert decide(-worse, 0.0, 0.01) == "failed"
    better = -worse
    assert -better == worse
