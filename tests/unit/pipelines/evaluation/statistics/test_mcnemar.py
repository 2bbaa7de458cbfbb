"""Test McNemar's test against the exact binomial test, and its form for days against a simulation."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipelines.errors import DataError
from pipelines.evaluation.statistics.mcnemar import run_mcnemar_test

Array = np.ndarray[Any, Any]


def build_rows(both: int, gained: int, lost: int, neither: int) -> tuple[Array, Array, Array]:
    """Build labels and two scores; both, only the candidate, only the champion or neither is right on so many rows."""
    label = np.arange(both + gained + lost + neither) % 2
    candidate_right = np.repeat([True, True, False, False], [both, gained, lost, neither])
    champion_right = np.repeat([True, False, True, False], [both, gained, lost, neither])
    candidate, champion = (np.where(right, label, 1 - label) * 0.8 + 0.1 for right in (candidate_right, champion_right))
    return label, candidate, champion


def test_mcnemar_gives_the_result_of_agrestis_approval_ratings() -> None:
    # Agresti (1990), p. 350: 794, 150, 86, 570. The asymptotic statistic is 17.36, p = 3.1e-5; the exact p is this sum.
    result = run_mcnemar_test(*build_rows(794, 150, 86, 570), threshold=0.5)
    assert (result.candidate_only, result.champion_only, result.rows) == (150, 86, 1600)
    exact_p_value = 2 * sum(Fraction(math.comb(236, k), 2**236) for k in range(87))
    assert result.p_value == pytest.approx(float(exact_p_value), rel=1e-10)
    assert result.p_value == pytest.approx(3.1e-5, rel=0.3)


@pytest.mark.parametrize(("gained", "lost"), [(5, 1), (1, 5), (3, 3), (0, 9), (24, 10)])
def test_mcnemar_equals_the_binomial_test(gained: int, lost: int) -> None:
    number = gained + lost
    chance = [math.comb(number, k) / 2**number for k in range(number + 1)]
    expected = sum(probability for probability in chance if probability <= chance[gained] * (1 + 1e-7))
    assert run_mcnemar_test(*build_rows(40, gained, lost, 20), threshold=0.5).p_value == pytest.approx(
        expected, rel=1e-10
    )


def test_models_that_agree_on_every_row_have_p_value_one() -> None:
    assert run_mcnemar_test(*build_rows(40, 0, 0, 20), threshold=0.5).p_value == 1.0
    label, candidate, _ = build_rows(40, 9, 0, 20)
    assert run_mcnemar_test(label, candidate, np.where(candidate >= 0.5, 0.6, 0.4), threshold=0.5).p_value == 1.0


def test_a_score_at_the_threshold_predicts_one() -> None:
    result = run_mcnemar_test(np.array([0, 1]), np.array([0.2, 0.5]), np.array([0.2, 0.49]), threshold=0.5)
    assert (result.candidate_only, result.champion_only) == (1, 0)


def test_mcnemar_refuses_scores_that_are_not_finite() -> None:
    with pytest.raises(DataError, match="not a finite number"):
        run_mcnemar_test(np.array([0, 1]), np.array([0.2, math.nan]), np.array([0.2, 0.49]), threshold=0.5)


@pytest.mark.parametrize("alpha", [0.025, 0.05])
def test_the_interval_excludes_zero_exactly_where_the_test_is_significant(alpha: float) -> None:
    for gained in range(14):
        for lost in range(14):
            result = run_mcnemar_test(*build_rows(40, gained, lost, 20), threshold=0.5, alpha=alpha)
            excludes_zero = result.gain.low > 0 or result.gain.high < 0
            assert excludes_zero == (result.p_value <= alpha), (gained, lost)


def test_the_interval_of_the_gain_covers_the_truth() -> None:
    # The candidate alone is right on 6 % of the rows, the champion alone on 10 %; each end may miss in 5 %.
    counts = np.random.default_rng(2).multinomial(200, [0.06, 0.10, 0.84], size=400)
    gains = [
        run_mcnemar_test(*build_rows(concordant, gained, lost, 0), threshold=0.5).gain
        for gained, lost, concordant in counts.tolist()
    ]
    assert sum(gain.low > -0.04 for gain in gains) / 400 < 0.05
    assert sum(gain.high < -0.04 for gain in gains) / 400 < 0.05
    # Negative control: an interval as narrow as one standard error misses more often.
    assert sum(gain.value - gain.se > -0.04 for gain in gains) / 400 > 0.1


def test_models_that_decide_alike_by_chance_may_still_differ() -> None:
    gain = run_mcnemar_test(*build_rows(2, 0, 0, 2), threshold=0.5).gain
    label, candidate, _ = build_rows(2, 0, 0, 2)
    champion = np.where(candidate >= 0.5, 0.6, 0.4)
    unequal_gain = run_mcnemar_test(label, candidate, champion, threshold=0.5).gain
    assert (gain.low, gain.high) == (0, 0)
    # Both models were right or wrong together on 4 rows: they may differ on 1 - 0.025 ** (1 / 4) = 0.60.
    assert (unequal_gain.low, unequal_gain.high) == pytest.approx((-0.6024, 0.6024), abs=1e-4)


@pytest.mark.parametrize("trials", [150, pytest.param(400, marks=pytest.mark.soak)])
def test_rows_of_a_day_that_go_together_are_one_piece_of_evidence(trials: int) -> None:
    """On each of 20 days one model alone is right on 10 rows: evidence of 20 days, and not of 200 rows."""
    random = np.random.default_rng(3)
    rejections = {"rows": 0, "days": 0}
    day = np.repeat(np.arange(20), 10)
    for _ in range(trials):
        label, candidate_right = random.integers(0, 2, 200), np.repeat(random.integers(0, 2, 20), 10)
        candidate, champion = (
            np.where(right, label, 1 - label) * 0.8 + 0.1 for right in (candidate_right, 1 - candidate_right)
        )
        rejections["rows"] += run_mcnemar_test(label, candidate, champion, 0.5).p_value <= 0.05
        rejections["days"] += run_mcnemar_test(label, candidate, champion, 0.5, groups=day).p_value <= 0.05
    assert stats.binomtest(rejections["days"], trials, 0.05, alternative="greater").pvalue > 0.01
    assert rejections["rows"] > 0.375 * trials  # negative control
