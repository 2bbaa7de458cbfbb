"""Simulate holdouts, and test how often a gate on these intervals is wrong and how often it finds a gain."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipelines.evaluation.statistics import bootstrap, delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import compute_rows_needed, decide

Array = np.ndarray[Any, Any]
TRIALS = pytest.mark.parametrize("trials", [400, pytest.param(1_000, marks=pytest.mark.soak)])
"""Numbers of simulated holdouts. The bounds of the tests follow from them."""
ALPHA, POWER = 0.05, 0.8
Gate = Callable[[Array, Array, Array, int], Estimate]


def estimate_auc_gain(label: Array, candidate: Array, champion: Array, seed: int) -> Estimate:
    return delong.estimate_auc_difference(label, candidate, champion, ALPHA)


def estimate_log_loss_gain(label: Array, candidate: Array, champion: Array, seed: int) -> Estimate:
    """Estimate the gain with inverted sign, so that greater is better. 400 draws are enough for these intervals."""
    return -bootstrap.estimate_difference(label, candidate, champion, "log_loss", alpha=ALPHA, seed=seed, draws=400)


def build_holdout(rows: int, random: np.random.Generator, noises: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Simulate the scores of two models that see the same signal with different noise."""
    label = (random.random(rows) < 0.4).astype(int)
    shared_logit = -0.9 + random.normal(label, 1, rows)
    candidate, champion = (1 / (1 + np.exp(-shared_logit - random.normal(0, noise, rows))) for noise in noises)
    return label, candidate, champion


def count_passes(gate: Gate, rows: int, noises: tuple[float, float], trials: int) -> int:
    random = np.random.default_rng(1)
    estimates = (gate(*build_holdout(rows, random, noises), trial) for trial in range(trials))
    return sum(decide(estimate, bound=0.0, relevant_effect=0.01) == "passed" for estimate in estimates)


GATES = pytest.mark.parametrize("gate", [estimate_auc_gain, estimate_log_loss_gain], ids=["delong", "bootstrap"])


@pytest.mark.slow
@GATES
@TRIALS
def test_equal_models_pass_in_alpha_of_the_cases(gate: Gate, trials: int) -> None:
    passes = count_passes(gate, 300, (0.5, 0.5), trials)
    assert stats.binomtest(passes, trials, ALPHA).pvalue > 0.01


@GATES
def test_a_worse_model_passes_less_often_and_a_better_model_more_often(gate: Gate) -> None:
    # Negative control: the test above would notice a difference.
    for noises, side in (((0.8, 0.5), "less"), ((0.5, 0.8), "greater")):
        passes = count_passes(gate, 300, noises, trials=400)
        assert stats.binomtest(passes, 400, ALPHA, alternative=side).pvalue < 1e-3


@pytest.mark.slow
@GATES
@TRIALS
def test_a_gain_is_detected_with_the_required_power(gate: Gate, trials: int) -> None:
    noises = (0.5, 1.0)
    gain = GAINS[gate](*build_holdout(1_000_000, np.random.default_rng(3), noises))
    rows_needed = compute_rows_needed(gain.se, gain.rows, gain.value, ALPHA, POWER)
    assert 200 < rows_needed < 2_000
    power = count_passes(gate, rows_needed, noises, trials) / trials
    # The tolerance is three standard errors of the simulation, and two points for the normal approximation.
    assert power == pytest.approx(POWER, abs=3 * math.sqrt(POWER * (1 - POWER) / trials) + 0.02)
    # Negative control: half the rows do not have this power.
    assert count_passes(gate, rows_needed // 2, noises, trials=400) / 400 < POWER - 0.1


def compute_auc_gain(label: Array, candidate: Array, champion: Array) -> Estimate:
    return delong.estimate_auc_difference(label, candidate, champion, ALPHA)


def compute_log_loss_gain(label: Array, candidate: Array, champion: Array) -> Estimate:
    candidate_loss, champion_loss = (-np.log(np.where(label, score, 1 - score)) for score in (candidate, champion))
    gain = champion_loss - candidate_loss
    return Estimate.from_standard_error(
        gain.mean(), gain.std() / math.sqrt(len(gain)), len(gain), ALPHA, -math.inf, math.inf
    )


GAINS = {estimate_auc_gain: compute_auc_gain, estimate_log_loss_gain: compute_log_loss_gain}
