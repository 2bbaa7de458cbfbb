"""Test DeLong's intervals of the AUC and of its difference against their definition and against scipy."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, brunnermunzel, norm
from sklearn.metrics import roc_auc_score

from pipelines.errors import DataError, SpecError
from pipelines.evaluation.statistics import delong

RANDOM = np.random.default_rng(5)
LABEL = (RANDOM.random(700) < 0.3).astype(int)
SCORE = RANDOM.normal(LABEL * 0.8)
TIED_SCORE = np.round(SCORE + RANDOM.normal(size=700) * 0.7, 1)


def compute_by_definition(label: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Compute the difference of the AUCs and its variance by the O(mn) definition: DeLong et al. 1988, (4) to (6)."""

    def compute_components(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ones, zeros = score[label == 1][:, None], score[label == 0][None, :]
        psi = (zeros < ones) + 0.5 * (zeros == ones)
        return psi.mean(axis=1), psi.mean(axis=0)

    (v10, v01), (w10, w01) = compute_components(first), compute_components(second)
    s10, s01 = np.cov(v10, w10), np.cov(v01, w01)
    s = s10 / len(v10) + s01 / len(v01)
    return v10.mean() - w10.mean(), s[0, 0] + s[1, 1] - 2 * s[0, 1]


@pytest.mark.parametrize("score", [SCORE, TIED_SCORE], ids=["distinct", "ties"])
def test_the_variance_equals_that_of_brunner_and_munzel(score: np.ndarray) -> None:
    estimate = delong.estimate_auc(LABEL, score, 0.05)
    assert estimate.value == pytest.approx(roc_auc_score(LABEL, score), abs=1e-12)
    statistic = brunnermunzel(score[LABEL == 0], score[LABEL == 1], distribution="normal").statistic
    assert (estimate.value - 0.5) / estimate.se == pytest.approx(statistic, rel=1e-10)
    assert estimate.low == pytest.approx(estimate.value - norm.isf(0.05) * estimate.se, abs=1e-14)
    assert estimate.high == pytest.approx(estimate.value + norm.isf(0.05) * estimate.se, abs=1e-14)
    assert estimate.rows == 700


def test_the_paired_variance_equals_its_definition() -> None:
    estimate = delong.estimate_auc_difference(LABEL, SCORE, TIED_SCORE, 0.05)
    value, variance = compute_by_definition(LABEL, SCORE, TIED_SCORE)
    assert estimate.value == pytest.approx(value, abs=1e-12)
    assert estimate.se == pytest.approx(math.sqrt(variance), rel=1e-10)
    reverse = delong.estimate_auc_difference(LABEL, TIED_SCORE, SCORE, 0.05)
    assert (reverse.value, reverse.low, reverse.high) == ((-estimate).value, (-estimate).low, (-estimate).high)


def test_pairing_makes_the_interval_narrower() -> None:
    unpaired_se = math.hypot(
        delong.estimate_auc(LABEL, SCORE, 0.05).se, delong.estimate_auc(LABEL, TIED_SCORE, 0.05).se
    )
    assert delong.estimate_auc_difference(LABEL, SCORE, TIED_SCORE, 0.05).se < 0.8 * unpaired_se


def test_equal_models_have_no_difference() -> None:
    estimate = delong.estimate_auc_difference(LABEL, SCORE, SCORE.copy(), 0.05)
    assert (estimate.value, estimate.low, estimate.high, estimate.se) == (0, 0, 0, 0)
    one_row_label, score = np.array([1, 0, 0]), np.array([3.0, 2.0, 1.0])
    estimate = delong.estimate_auc_difference(one_row_label, score, score, 0.05)
    assert (estimate.value, estimate.low, estimate.high, estimate.se) == (0, 0, 0, 0), "one row of a label is enough"


@pytest.mark.parametrize(("score", "value"), [(LABEL, 1.0), (-LABEL, 0.0), (np.zeros(700), 0.5)])
def test_without_variance_the_interval_is_that_of_independent_pairs(score: np.ndarray, value: float) -> None:
    estimate = delong.estimate_auc(LABEL, score, 0.05)
    pairs = int(LABEL.sum())
    expected = binomtest(round(value * pairs), pairs).proportion_ci(0.9, method="exact")
    assert (estimate.value, estimate.se) == (value, 0)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=0.003)


def test_four_separated_rows_prove_nothing() -> None:
    label, score = np.array([0, 0, 1, 1]), np.array([1, 2, 3, 4])
    estimate = delong.estimate_auc(label, score, 0.05)
    # Two independent pairs in the right order: 0.05 ** (1 / 2) by Clopper and Pearson.
    assert (estimate.value, estimate.low, estimate.high) == (1, pytest.approx(math.sqrt(0.05)), 1)
    difference = delong.estimate_auc_difference(label, score, score**2, 0.05)
    assert (difference.value, difference.low, difference.high) == pytest.approx((0, -0.8419, 0.8419), abs=1e-4)


def test_one_row_of_a_label_leaves_the_auc_open() -> None:
    estimate = delong.estimate_auc(np.array([0, 1, 1]), np.array([1, 2, 3]), 0.05)
    assert (estimate.low, estimate.high) == (pytest.approx(0.05), 1)
    difference = delong.estimate_auc_difference(np.array([0, 1, 1]), np.array([1, 2, 3]), np.array([2, 1, 3]), 0.05)
    assert difference.low < -0.9 < 0.9 < difference.high


@pytest.mark.parametrize(("trials", "limit"), [(300, 23), pytest.param(1_000, 65, marks=pytest.mark.soak)])
def test_few_rows_of_a_label_cover_the_truth(trials: int, limit: int) -> None:
    """Two rows of label 1 above all others happen often, though the AUC is 0.76. DeLong alone is certain then."""
    random, misses = np.random.default_rng(4), {"exact": 0, "delong": 0}
    label = np.repeat([1, 0], [3, 200])
    for _ in range(trials):
        estimate = delong.estimate_auc(label, random.normal(label), 0.05)
        misses["exact"] += estimate.low > 0.7602
        misses["delong"] += estimate.value - norm.isf(0.05) * estimate.se > 0.7602
    assert misses["exact"] <= limit
    assert misses["delong"] > 0.15 * trials  # negative control


def test_the_interval_stays_between_zero_and_one() -> None:
    estimate = delong.estimate_auc(np.array([0, 0, 0, 1, 1, 1]), np.array([1, 2, 4, 3, 5, 6]), 0.001)
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


INVALID_ROWS = [
    (np.zeros(0), np.zeros(0), "no rows"),
    (np.zeros((2, 2)), np.zeros(4), "no rows"),
    (np.ones(5), np.arange(5), "label 1"),
    (np.array([0, 1, 2]), np.arange(3), "neither 0 nor 1"),
    (np.array([0, 1, math.nan]), np.arange(3), "neither 0 nor 1"),
    (np.array([0, 1, 1]), np.arange(4), "3 labels"),
    (np.array([0, 1, 1]), np.array([1, math.nan, 2]), "not a finite number for 1 of 3"),
    (np.array([0, 1, 1]), np.array([1, math.inf, math.nan]), "not a finite number for 2 of 3"),
]


@pytest.mark.parametrize(("label", "score", "message"), INVALID_ROWS)
def test_refuses_invalid_rows(label: np.ndarray, score: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        delong.estimate_auc(label, score, 0.05)
    with pytest.raises(DataError, match=message):
        delong.estimate_auc_difference(label, score, score, 0.05)


@pytest.mark.parametrize("alpha", [0, 0.5, -1, math.nan])
def test_refuses_an_invalid_alpha(alpha: float) -> None:
    with pytest.raises(SpecError, match="alpha"):
        delong.estimate_auc(LABEL, SCORE, alpha)
