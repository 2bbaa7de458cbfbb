"""How often a gate on these intervals is wrong, and how often it finds a gain, over 2,000 simulated holdouts."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipelines.evaluation.statistics import bootstrap, delong
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.hypotheses import decide, rows_needed

Array = np.ndarray[Any, Any]
TRIALS = 2_000
ALPHA, POWER = 0.05, 0.8
Gate = Callable[[Array, Array, Array, int], Estimate]


def of_auc(label: Array, candidate: Array, champion: Array, seed: int) -> Estimate:
    return delong.estimate_auc_difference(label, candidate, champion, ALPHA)


def of_log_loss(label: Array, candidate: Array, champion: Array, seed: int) -> Estimate:
    """Greater is better: the sign is turned. Draws enough for these ends."""
    return -bootstrap.estimate_difference(label, candidate, champion, "log_loss", alpha=ALPHA, seed=seed, draws=400)


def holdout(rows: int, random: np.random.Generator, noises: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Rows of two models that see the same signal, each with noise of its own."""
    label = (random.random(rows) < 0.4).astype(int)
    shared = -0.9 + random.normal(label, 1, rows)
    one, other = (1 / (1 + np.exp(-shared - random.normal(0, noise, rows))) for noise in noises)
    return label, one, other


def passes(gate: Gate, rows: int, noises: tuple[float, float], trials: int = TRIALS) -> int:
    random = np.random.default_rng(1)
    told = (gate(*holdout(rows, random, noises), trial) for trial in range(trials))
    return sum(decide(one, bound=0.0, matters=0.01) == "passed" for one in told)


GATES = pytest.mark.parametrize("gate", [of_auc, of_log_loss], ids=["delong", "bootstrap"])


@GATES
def test_equal_models_pass_in_alpha_of_the_cases(gate: Gate) -> None:
    passed = passes(gate, 300, (0.5, 0.5))
    assert stats.binomtest(passed, TRIALS, ALPHA).pvalue > 0.01


@GATES
def test_a_worse_model_passes_less_and_a_better_one_more(gate: Gate) -> None:
    # Negative control of the one above: it would notice.
    for noises, side in (((0.8, 0.5), "less"), ((0.5, 0.8), "greater")):
        passed = passes(gate, 300, noises, trials=400)
        assert stats.binomtest(passed, 400, ALPHA, alternative=side).pvalue < 1e-3


@GATES
def test_a_planted_gain_is_detected_with_the_promised_power(gate: Gate) -> None:
    noises = (0.5, 1.0)
    gain = GAINS[gate](*holdout(1_000_000, np.random.default_rng(3), noises))
    needed = rows_needed(gain.se, gain.rows, gain.value, ALPHA, POWER)
    assert 200 < needed < 2_000
    found = passes(gate, needed, noises) / TRIALS
    # Three standard errors of the simulation, and two points for the normal approximation.
    assert found == pytest.approx(POWER, abs=3 * math.sqrt(POWER * (1 - POWER) / TRIALS) + 0.02)
    # Negative control: half the rows have not this power.
    assert passes(gate, needed // 2, noises, trials=400) / 400 < POWER - 0.1


def gain_in_auc(label: Array, one: Array, other: Array) -> Estimate:
    return delong.estimate_auc_difference(label, one, other, ALPHA)


def gain_in_log_loss(label: Array, one: Array, other: Array) -> Estimate:
    better, worse = (-np.log(np.where(label, score, 1 - score)) for score in (one, other))
    gain = worse - better
    return Estimate.normal(gain.mean(), gain.std() / math.sqrt(len(gain)), len(gain), ALPHA, -math.inf, math.inf)


GAINS = {of_auc: gain_in_auc, of_log_loss: gain_in_log_loss}
