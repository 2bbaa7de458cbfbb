"""Simulate how often intervals of a regression's metrics miss the true value, and how often the gate passes wrongly.

Labels are minutes with a long tail. The effects of days are independent, or correlated by 0.5 with the day before. All
true values are computed from the distribution of the errors: the sum of a normal and an exponential variable.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import exponnorm

from benchmarks.decisions import simulation
from benchmarks.decisions.simulation import (
    ROWS,
    ChooseCandidate,
    Simulation,
    build_features,
    build_policy,
    choose_always,
    draw_day_values,
    find_margin,
    number_days,
)
from pipelines.evaluation.gates.holdout import Holdout

INTERVALS, CHECKS, BETTER_CHECKS, VERDICTS = 500, 800, 200, 100
"""Simulations of a case, for intervals, checks that should not pass, checks of a better candidate, and verdicts."""
MEAN, SIGNAL, DAY_EFFECT, NOISE = 10.0, 12.0, 5.0, 8.0
"""Mean of the labels, and standard deviations of a label's parts (by features, of the day, of the row); minutes."""
LABEL_VARIANCE = SIGNAL**2 + DAY_EFFECT**2 + NOISE**2
QUALITY = 2.0
"""Standard deviation of a model's quality on a day: the part of its error that all rows of the day share, minutes."""
QUANTILES = {"0.1": 0.1, "0.5": 0.5, "0.9": 0.9}
WEAK_WEIGHT = 0.2
"""Weight that a useless model gives to the signal. The `error` of this model makes it as bad as a constant."""
GAIN = 0.05
"""How far the R2 of a better candidate is above the champion's."""


@dataclass(frozen=True)
class Model:
    """A model that predicts `MEAN` + `weight` x signal, with an error on each day and an error on each row."""

    error: float
    """Standard deviation of the errors on rows, minutes."""
    weight: float = 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the normal part of label minus score; the other part is exponential."""
        return math.sqrt(DAY_EFFECT**2 + QUALITY**2 + self.error**2 + ((1 - self.weight) * SIGNAL) ** 2)

    def build_residuals(self) -> Any:
        """Return the distribution of label minus score."""
        return exponnorm(NOISE / self.deviation, loc=-NOISE, scale=self.deviation)


CHAMPION = Model(4.0)


def run() -> dict[str, Any]:
    """Simulate intervals, checks and verdicts for each number of days, once independent and once correlated."""
    return simulation.run(build_simulation())


def build_simulation(
    intervals: int = INTERVALS, checks: int = CHECKS, better_checks: int = BETTER_CHECKS, verdicts: int = VERDICTS
) -> Simulation:
    """Build the simulation, with these numbers of simulations of a case."""
    worse, better = find_model_with_gain(-find_margin("regression")), find_model_with_gain(GAIN)
    truths, truths_at_bound = compute_truths(CHAMPION), compute_truths(worse)
    losses = {name: truths_at_bound[name] - truths[name] for name in ("rmse", "mae", "pinball")}
    return Simulation(
        simulate=simulate,
        policy=build_policy(simulate(choose_always(CHAMPION), 14, 0.0, np.random.default_rng(1))),
        truths=truths,
        losses=losses,
        choose_equal=choose_always(CHAMPION),
        choose_worse=choose_always(worse),
        choose_better=choose_always(better),
        gain=f"{GAIN} R2 above the champion",
        trivial_candidates={
            "the label's mean in training": choose_always(find_useless_model(MEAN)),
            "the label's mean in the last week of training": find_useless_model,
        },
        intervals=intervals,
        checks=checks,
        better_checks=better_checks,
        verdicts=verdicts,
    )


def simulate(
    choose: ChooseCandidate, days: int, correlation: float, random: np.random.Generator, rows: int = ROWS
) -> Holdout:
    """Simulate the labels of days, with the scores and quantiles of a candidate and of `CHAMPION`.

    A useless candidate has no quantiles.
    """
    day, is_holdout = number_days(days, rows)
    signal = random.normal(0.0, SIGNAL, size=len(day))
    day_effects = DAY_EFFECT * draw_day_values(int(day[-1]) + 1, correlation, random)
    # Labels have a long tail to one side.
    label = MEAN + signal + day_effects[day] + NOISE * (random.exponential(size=len(day)) - 1.0)
    last_week_mean = float(label[~is_holdout].mean())
    day, signal, label = day[is_holdout], signal[is_holdout], label[is_holdout]
    scores, quantiles = [], []
    for model in (choose(last_week_mean), CHAMPION):
        quality = QUALITY * draw_day_values(int(day[-1]) + 1, correlation, random)
        scores.append(MEAN + model.weight * signal + quality[day] + random.normal(0.0, model.error, size=len(day)))
        offsets = {} if model.weight == WEAK_WEIGHT else compute_offsets(model)
        quantiles.append({name: scores[-1] + offset for name, offset in offsets.items()})
    return Holdout(
        label,
        scores[0],
        scores[1],
        features=build_features(day, random),
        base_rate=MEAN,
        last_week_rate=last_week_mean,
        task="regression",
        candidate_quantiles=quantiles[0],
        champion_quantiles=quantiles[1],
    )


@functools.lru_cache(maxsize=8)
def compute_offsets(model: Model) -> dict[str, float]:
    """Compute what is added to the score of a model for each quantile: the true quantiles of label minus score."""
    return dict(zip(QUANTILES, model.build_residuals().ppf(list(QUANTILES.values())), strict=True))


def compute_truths(model: Model) -> dict[str, float]:
    """Compute the true values of all metrics of a model."""
    residuals, square = model.build_residuals(), model.deviation**2 + NOISE**2
    losses = {name: _compute_pinball(residuals, quantile) for name, quantile in QUANTILES.items()}
    return {
        "rmse": math.sqrt(square),
        "mae": 2 * _compute_pinball(residuals, 0.5, offset=0.0),
        "median_ae": brentq(lambda error: residuals.cdf(error) - residuals.cdf(-error) - 0.5, 0.0, 100.0),
        "r2": 1 - square / LABEL_VARIANCE,
        "bias": 0.0,
        "pinball": sum(losses.values()) / len(losses),
        **{f"pinball/{name}": loss for name, loss in losses.items()},
        # The quantiles of the model are the true ones, so that 80 % of the labels are between these two.
        "coverage/0.1-0.9": 0.8,
    }


def _compute_pinball(residuals: Any, quantile: float, offset: float | None = None) -> float:
    """Compute the true pinball loss of score + `offset`. By default, the offset is the quantile of the residuals."""
    start = float(residuals.ppf(quantile)) if offset is None else offset
    # The mean distance by which residuals exceed a point is the integral of their survival function from this point on.
    above, below = quad(residuals.sf, start, 400.0)[0], quad(residuals.cdf, -200.0, start)[0]
    return float(quantile * above + (1 - quantile) * below)


def find_model_with_gain(gain: float) -> Model:
    """Return a model whose true R2 is that of `CHAMPION` plus `gain`."""
    return Model(math.sqrt(CHAMPION.error**2 - gain * LABEL_VARIANCE))


def find_useless_model(mean: float) -> Model:
    """Return a model that uses the signal, but whose true RMSE is that of predicting `mean` for every row."""
    square = LABEL_VARIANCE + (mean - MEAN) ** 2 - NOISE**2
    return Model(math.sqrt(square - Model(0.0, WEAK_WEIGHT).deviation ** 2), WEAK_WEIGHT)
