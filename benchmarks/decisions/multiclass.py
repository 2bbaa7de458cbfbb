"""Simulate how often intervals of a multiclass model's metrics miss the true value, and how often the gate is wrong.

The effect of a day, which its rows share, changes the shares of the classes. The effects of days are independent, or
correlated by 0.5 with the day before. True values are computed from 250,000 rows of 5,000 independent days: the ECE by
this module, those of the other metrics by scikit-learn.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn import metrics

from benchmarks.decisions import simulation
from benchmarks.decisions.simulation import (
    ROWS,
    Array,
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

INTERVALS, CHECKS, BETTER_CHECKS, VERDICTS = 300, 500, 100, 60
"""Simulations of a case, for intervals, checks that should not pass, checks of a better candidate, and verdicts."""
TRUTH_DAYS, TRUTH_ROWS = 5_000, 50
"""Days from which true values are computed, and the rows of each."""
CLASSES = ("a", "b", "c")
SIGNAL, DAY_EFFECT, QUALITY = 1.5, 0.35, 0.15
"""Standard deviations: of the signal in a row's features, of a day's shares of the classes (both in log odds), and of
the weight that a model gives to the signal."""
OFFSETS = np.array([0.0, 0.4, 1.2])
"""Log odds of the classes. With them, a class has 15 to 55 % of the rows."""
WEAK_WEIGHT = 0.2
"""Weight that a useless model gives to the signal. With its noise, the model is no better than a constant."""
NOISE_RANGE = (0.2, 1.2)
"""Range in which `find_model_with_gain` searches the noise of a model, log odds."""
GAIN = 0.01
"""How far the macro AUC of a better candidate is above the champion's."""
ECE_BINS = 10


@dataclass(frozen=True)
class Model:
    """A model whose log odds of a row are `OFFSETS` + `weight` x signal + noise."""

    noise: float
    """Standard deviation of the noise, log odds."""
    weight: float = 1.0


CHAMPION = Model(0.6)


def run() -> dict[str, Any]:
    """Simulate intervals, checks and verdicts for each number of days, once independent and once correlated."""
    return simulation.run(build_simulation())


def build_simulation(
    intervals: int = INTERVALS, checks: int = CHECKS, better_checks: int = BETTER_CHECKS, verdicts: int = VERDICTS
) -> Simulation:
    """Build the simulation, with these numbers of simulations of a case."""
    worse, better = find_model_with_gain(-find_margin("multiclass")), find_model_with_gain(GAIN)
    truths, truths_at_bound = compute_truths(CHAMPION), compute_truths(worse)
    names = ("accuracy", "balanced_accuracy", "macro_f1", "recall/a")
    tolerated_losses = {name: truths[name] - truths_at_bound[name] for name in names}
    tolerated_losses["log_loss"] = truths_at_bound["log_loss"] - truths["log_loss"]
    return Simulation(
        simulate=simulate,
        policy=build_policy(simulate(choose_always(CHAMPION), 14, 0.0, np.random.default_rng(1))),
        truths=truths,
        losses=tolerated_losses,
        choose_equal=choose_always(CHAMPION),
        choose_worse=choose_always(worse),
        choose_better=choose_always(better),
        gain=f"{GAIN} macro AUC above the champion",
        trivial_candidates={
            "the label's class shares in training": choose_always(find_useless_model(compute_shares())),
            "the label's class shares in the last week of training": find_useless_model,
        },
        intervals=intervals,
        checks=checks,
        better_checks=better_checks,
        verdicts=verdicts,
    )


def simulate(
    choose: ChooseCandidate, days: int, correlation: float, random: np.random.Generator, rows: int = ROWS
) -> Holdout:
    """Simulate the classes of rows, with the probabilities of a candidate and of `CHAMPION`."""
    day, is_holdout = number_days(days, rows)
    log_odds, signal = _draw_log_odds(day, correlation, random)
    label = (log_odds + random.gumbel(size=log_odds.shape)).argmax(axis=1)
    last_week_shares = np.bincount(label[~is_holdout], minlength=len(CLASSES)) / (~is_holdout).sum()
    day, signal, label = day[is_holdout], signal[is_holdout], label[is_holdout]
    scores = [_predict(model, day, signal, correlation, random) for model in (choose(last_week_shares), CHAMPION)]
    return Holdout(
        label,
        scores[0],
        scores[1],
        features=build_features(day, random),
        base_rate=compute_shares(),
        last_week_rate=last_week_shares,
        task="multiclass",
        classes=CLASSES,
    )


def _draw_log_odds(day: Array, correlation: float, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw the log odds of the classes of each row. Return them, and their part that the features show: the signal."""
    signal = random.normal(0.0, SIGNAL, size=(len(day), len(CLASSES)))
    day_effects = np.column_stack([draw_day_values(int(day[-1]) + 1, correlation, random) for _ in CLASSES])
    return signal + OFFSETS + DAY_EFFECT * day_effects[day], signal


def _predict(model: Model, day: Array, signal: Array, correlation: float, random: np.random.Generator) -> Array:
    """Compute the probabilities that a model gives to the classes of each row."""
    weight = model.weight + QUALITY * draw_day_values(int(day[-1]) + 1, correlation, random)[day, np.newaxis]
    return np.asarray(softmax(OFFSETS + weight * signal + model.noise * random.normal(size=signal.shape), axis=1))


@functools.cache
def compute_truths(model: Model) -> dict[str, float]:
    """Compute the true values of all metrics of a model."""
    label, score = _simulate_truth(model)
    predicted_classes, aucs = score.argmax(axis=1), _compute_aucs(label, score)
    recalls = metrics.recall_score(label, predicted_classes, average=None)
    return {
        "log_loss": metrics.log_loss(label, score),
        "macro_auc": float(np.mean(aucs)),
        "accuracy": metrics.accuracy_score(label, predicted_classes),
        "balanced_accuracy": float(recalls.mean()),
        "macro_f1": metrics.f1_score(label, predicted_classes, average="macro"),
        "ece": _compute_ece(label == predicted_classes, score.max(axis=1)),
        **{f"recall/{name}": float(recalls[number]) for number, name in enumerate(CLASSES)},
        **{f"auc/{name}": aucs[number] for number, name in enumerate(CLASSES)},
    }


def _compute_aucs(label: Array, score: Array) -> list[float]:
    """Compute the AUC of each class against all others."""
    return [float(metrics.roc_auc_score(label == number, score[:, number])) for number in range(len(CLASSES))]


def _compute_ece(is_right: Array, confidence: Array) -> float:
    """Compute the mean distance between accuracy and confidence in bins of equal mass."""
    bins = np.array_split(np.argsort(confidence), ECE_BINS)
    gaps = [abs(is_right[rows].mean() - confidence[rows].mean()) * len(rows) for rows in bins]
    return float(sum(gaps) / len(confidence))


def _simulate_truth(model: Model) -> tuple[Array, Array]:
    """Simulate labels and scores of a model; all models get the same random numbers."""
    random, day = np.random.default_rng(7), np.repeat(np.arange(TRUTH_DAYS), TRUTH_ROWS)
    log_odds, signal = _draw_log_odds(day, 0.0, random)
    label = (log_odds + random.gumbel(size=log_odds.shape)).argmax(axis=1)
    return label, _predict(model, day, signal, 0.0, random)


@functools.cache
def compute_shares() -> Array:
    """Compute the true shares of the classes."""
    log_odds, _ = _draw_log_odds(np.arange(TRUTH_DAYS * TRUTH_ROWS), 0.0, np.random.default_rng(8))
    return np.asarray(softmax(log_odds, axis=1).mean(axis=0))


@functools.cache
def find_model_with_gain(gain: float) -> Model:
    """Find a model whose true macro AUC is that of `CHAMPION` plus `gain`."""
    target = compute_truths(CHAMPION)["macro_auc"] + gain
    noise = brentq(
        lambda value: np.mean(_compute_aucs(*_simulate_truth(Model(value)))) - target, *NOISE_RANGE, xtol=1e-3
    )
    return Model(float(noise))


def find_useless_model(shares: Array) -> Model:
    """Find a model that uses the signal, but whose true log loss is that of predicting `shares` for every row."""
    squares, losses = _compute_losses()
    return Model(float(np.sqrt(np.interp(-compute_shares() @ np.log(shares), losses, squares))), WEAK_WEIGHT)


@functools.cache
def _compute_losses() -> tuple[Array, Array]:
    """Compute the true log losses of useless models, by the squares of their noise."""
    squares = np.linspace(0.4, 0.8, 5)
    losses = [metrics.log_loss(*_simulate_truth(Model(float(np.sqrt(square)), WEAK_WEIGHT))) for square in squares]
    return squares, np.array(losses)
