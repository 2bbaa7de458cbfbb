"""Simulate how often the intervals of a multiclass model's metrics miss the truth, and how often the gate is wrong.

The rows of a simulated day share its weather, which moves the shares of the classes, and the quality of each model on
that day. There are two kinds of weather: independent from day to day, and correlated by 0.5 with the day before. True
values are those of 500,000 rows of 5,000 independent days.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.decisions.coverage import INTERVAL_ROWS, KINDS, draw_day_values, format_share, measure_cases
from pipelines.evaluation.gates import Policy, combine_outcomes
from pipelines.evaluation.gates.estimates import estimate_gain, estimate_metric
from pipelines.evaluation.gates.holdout import Array, Holdout
from pipelines.evaluation.gates.judge import Evidence, judge
from pipelines.evaluation.gates.policy import Comparison, Slices
from pipelines.evaluation.statistics.weighted import compute_metric, list_metrics

INTERVALS, VERDICTS = 200, 150
"""Simulations of a case, for intervals and for verdicts."""
VERDICT_ROWS = 200
"""Rows of a day where a verdict is simulated."""
DAYS = (14, 28, 60)
CLASSES = ("a", "b", "c")
METRICS = list_metrics("multiclass", CLASSES)
SIGNAL, WEATHER, QUALITY = 1.5, 0.35, 0.15
"""Standard deviations: of the signal in a row's features, of a day's shares of the classes (both in log odds), and of
the weight that a model gives to the signal."""
NOISE = 0.6
"""Standard deviation of the noise that a model adds to each row, log odds."""
OFFSETS = np.array([0.0, 0.4, 1.2])
"""Log odds of the classes: 15 to 55 % of the rows."""
POLICY = Policy(group_by="date", slices=Slices(columns=["origin"]), min_rows=1_000, serving=None)
MACRO_AUC_LOSS = 0.02
"""Loss of the worse candidate: twice the margin of the default policy."""


def run() -> dict[str, Any]:
    """Simulate intervals and verdicts for each number of days and both kinds of weather."""
    return measure_cases(DAYS, INTERVALS, VERDICTS, _measure)


def _measure(kind: str, days: int) -> dict[str, str]:
    return _measure_intervals(days, KINDS[kind]) | _measure_verdicts(days, KINDS[kind])


def simulate(days: int, rows_per_day: int, correlation: float, noise: float, random: np.random.Generator) -> Holdout:
    """Simulate classes, with the probabilities of a candidate with this noise, and of a champion with `NOISE`."""
    day = np.repeat(np.arange(days), rows_per_day)
    signal = random.normal(0.0, SIGNAL, size=(len(day), len(CLASSES)))
    weather = np.column_stack([draw_day_values(days, correlation, random) for _ in CLASSES])
    log_odds = signal + OFFSETS + WEATHER * weather[day]
    label = (log_odds + random.gumbel(size=log_odds.shape)).argmax(axis=1)
    scores = []
    for model_noise in (noise, NOISE):
        weight = 1 + QUALITY * draw_day_values(days, correlation, random)[day, np.newaxis]
        model_log_odds = OFFSETS + weight * signal + random.normal(0.0, model_noise, size=log_odds.shape)
        scores.append(np.exp(model_log_odds) / np.exp(model_log_odds).sum(axis=1, keepdims=True))
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(day, unit="D")
    frame = pd.DataFrame({"date": dates, "origin": random.choice(["EWR", "JFK", "LGA"], len(day))})
    shares = np.exp(OFFSETS) / np.exp(OFFSETS).sum()
    return Holdout(label, scores[0], scores[1], frame, shares, shares, task="multiclass", classes=CLASSES)


def _measure_intervals(days: int, correlation: float) -> dict[str, str]:
    """Count how often 95 % intervals contain the truth: of each metric, and of differences of equal models."""
    counts: Counter[str] = Counter()
    policy = POLICY.model_copy(update={"alpha": 0.025})
    for number in range(INTERVALS):
        holdout = simulate(days, INTERVAL_ROWS, correlation, NOISE, np.random.default_rng([days, number]))
        for name in METRICS:
            estimate = estimate_metric(holdout, name, policy)
            counts[name] += estimate.low <= _compute_truth(name) <= estimate.high
        for name in ("macro_auc", "log_loss"):
            assert isinstance(holdout.champion_score, np.ndarray)
            difference = estimate_gain(holdout, holdout.champion_score, Comparison(metric=name), policy)
            counts[f"difference of {name}"] += difference.low <= 0.0 <= difference.high
    return {
        f"{name}: 95 % interval contains the truth": format_share(count, INTERVALS) for name, count in counts.items()
    }


def _measure_verdicts(days: int, correlation: float) -> dict[str, str]:
    """Judge by the default policy: an equal candidate, and one whose macro AUC is worse by twice the margin."""
    facts = {}
    losses = {"equal models": 0.0, f"candidate {MACRO_AUC_LOSS} macro AUC below the champion": MACRO_AUC_LOSS}
    for title, loss in losses.items():
        outcomes: Counter[str] = Counter()
        for number in range(VERDICTS):
            random = np.random.default_rng([days, number, 1])
            holdout = simulate(days, VERDICT_ROWS, correlation, _find_noise(loss), random)
            outcomes[combine_outcomes(judge(Evidence(holdout), POLICY).checks)] += 1
        facts[f"{title}: verdicts"] = ", ".join(
            f"{outcome} {format_share(count, VERDICTS)}" for outcome, count in sorted(outcomes.items())
        )
    return facts


@functools.cache
def _compute_truth(metric: str, noise: float = NOISE) -> float:
    label, score = _simulate_truth(noise)
    return compute_metric(label, score, METRICS[metric])


@functools.lru_cache(maxsize=1)
def _simulate_truth(noise: float) -> tuple[Array, Array]:
    holdout = replace(simulate(5_000, 100, 0.0, noise, np.random.default_rng(7)), champion_score=None)
    return holdout.label, holdout.candidate_score


@functools.cache
def _find_noise(loss: float) -> float:
    """Find the noise of a model whose macro AUC is lower by `loss` than that of a model with noise `NOISE`."""
    if not loss:
        return NOISE
    low, high, target = NOISE, 5.0, _compute_truth("macro_auc") - loss
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _compute_truth("macro_auc", middle) > target else (low, middle)
    return (low + high) / 2
