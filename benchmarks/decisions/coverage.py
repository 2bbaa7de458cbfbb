"""Simulate how often the gate's intervals miss the true value, and how often the shipped policy promotes wrongly.

A simulated day has an effect that all its rows share: it changes the rate of the label, and how well each model does on
that day. The effects are independent from day to day, or correlated by 0.5 with the day before. The true values are
measured on 500,000 simulated rows of 5,000 independent days.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.decisions.simulation import CORRELATIONS, Array, Misses, draw_day_values, format_share, measure_cases
from pipelines.evaluation.gates import Policy, combine_outcomes
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.statistics import bootstrap
from pipelines.evaluation.statistics.mcnemar import run_mcnemar_test
from pipelines.evaluation.statistics.weighted import compute_metric

ROWS_PER_DAY = {14: 360, 28: 180, 60: 84}
"""Rows of each day of a simulated verdict, by number of days. Rows x days is just over the policy's min_rows."""
ROWS_PER_DAY_FOR_INTERVALS = 100
"""Rows of each day of a simulated interval."""
INTERVALS, VERDICTS = 700, 120
"""Number of simulations of each interval, and of each verdict."""
THRESHOLD = 0.3
"""Score from which McNemar's test counts a row as predicted to have label 1."""
DAY_EFFECT, QUALITY = 0.5, 0.4
"""Standard deviations between days: of the label's log odds, and of the weight that a model gives to the signal."""
MIN_NOISE, MAX_NOISE = 0.0, 6.0
"""Range of standard deviations in which `find_noise` searches."""


@dataclass(frozen=True)
class ScoredRows:
    """Rows of simulated days: their labels, the scores of two models, and the number of the day."""

    label: Array
    candidate: Array
    champion: Array
    day: Array


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the noise that two models add to the signal. The larger it is, the worse is the model."""

    candidate: float
    champion: float


EQUAL_MODELS = Noise(1.0, 1.0)


def run() -> dict[str, Any]:
    """Simulate intervals of 7, 14, 28 and 60 days and verdicts of 14, 28 and 60, of independent and correlated days."""
    return measure_cases((7, *ROWS_PER_DAY), {"interval": (INTERVALS, 0.95), "verdict": (VERDICTS, 0.05)}, _measure)


def _measure(dependence: str, days: int) -> dict[str, str]:
    """Measure intervals, and, if the number of days is a key of `ROWS_PER_DAY`, verdicts.

    Args:
        dependence: key of `CORRELATIONS`.
        days: number of simulated days.
    """
    facts = _measure_intervals(dependence, days)
    if days not in ROWS_PER_DAY:
        return facts
    noise_of_worse_model = find_noise(_compute_truth(EQUAL_MODELS, "auc") - 0.02)
    noise_of_weak_model = find_noise(0.58)
    for name, noise in {
        "equal models": EQUAL_MODELS,
        "candidate 0.02 AUC below the champion": Noise(noise_of_worse_model, EQUAL_MODELS.champion),
        "candidate and champion with an AUC of 0.58": Noise(noise_of_weak_model, noise_of_weak_model),
    }.items():
        facts |= {f"{name}: {fact}": value for fact, value in _measure_verdicts(dependence, days, noise).items()}
    return facts


def _measure_intervals(dependence: str, days: int) -> dict[str, str]:
    """Count how often 95 % intervals contain the truth, and how often McNemar's test rejects equal models at 5 %."""
    true_values = {name: _compute_truth(EQUAL_MODELS, name) for name in ("auc", "ece")}
    misses, rejections = Misses(), 0
    for number in range(INTERVALS):
        random = np.random.default_rng([days, number])
        rows = simulate(EQUAL_MODELS, days, ROWS_PER_DAY_FOR_INTERVALS, CORRELATIONS[dependence], random)
        options: dict[str, Any] = {"alpha": 0.025, "seed": 1, "groups": rows.day}
        for name, true_value in true_values.items():
            misses.add(name, bootstrap.estimate_metric(rows.label, rows.candidate, name, **options), true_value)
        models = (rows.label, rows.candidate, rows.champion)
        misses.add("difference of AUC", bootstrap.estimate_difference(*models, "auc", **options), 0.0)
        misses.add("difference of log loss", bootstrap.estimate_difference(*models, "log_loss", **options), 0.0)
        test = run_mcnemar_test(*models, THRESHOLD, groups=rows.day)
        rejections += test.p_value <= 0.05
    facts = misses.describe(("auc", "difference of AUC", "difference of log loss", "ece"), INTERVALS)
    return facts | {"McNemar by days of equal models: p at most 5 %": format_share(rejections, INTERVALS)}


def _measure_verdicts(dependence: str, days: int, noise: Noise) -> dict[str, str]:
    """Judge simulated holdouts by the policy of params.yaml; count the outcomes of its checks and of McNemar's test."""
    policy = load_policy()
    passes = 0
    outcome_counts: dict[str, Counter[str]] = {}
    for number in range(VERDICTS):
        random = np.random.default_rng([days, number, 1])
        holdout = build_holdout(simulate(noise, days, ROWS_PER_DAY[days], CORRELATIONS[dependence], random), random)
        checks = judge(JudgedData(holdout), policy).checks
        for check in checks:
            outcome_counts.setdefault(check.name, Counter())[check.outcome] += 1
        # Without McNemar's test, which only `load_policy` adds. The name of its check contains "correctly".
        passes += combine_outcomes(check for check in checks if "correctly" not in check.name) == "passed"
    facts = {"verdict of the shipped policy is passed": format_share(passes, VERDICTS)}
    for name, counter in outcome_counts.items():
        facts[name] = ", ".join(f"{outcome} {format_share(counter[outcome], VERDICTS)}" for outcome in sorted(counter))
    return facts


def load_policy() -> Policy:
    """Return the policy of params.yaml with McNemar's test, but without the checks of packages and leaks."""
    section = yaml.safe_load((Path(__file__).parents[2] / "params.yaml").read_text("utf-8"))["gate"]["policy"]
    return Policy(**{**section, "threshold": THRESHOLD, "serving": None, "max_solo_auc": None})


def build_holdout(rows: ScoredRows, random: np.random.Generator) -> Holdout:
    """Build a holdout with the columns that the shipped policy names."""
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(rows.day, unit="D")
    origins = random.choice(["EWR", "JFK", "LGA"], len(rows.day))
    frame = pd.DataFrame({"date": dates, "origin": origins})
    rate = float(rows.label.mean())
    return Holdout(rows.label.astype(float), rows.candidate, rows.champion, frame, rate, rate)


def simulate(noise: Noise, days: int, rows_per_day: int, correlation: float, random: np.random.Generator) -> ScoredRows:
    """Simulate the rows of several days. The rows of a day share its effect and the quality of each model."""
    day = np.repeat(np.arange(days), rows_per_day)
    signal = random.normal(size=len(day))
    day_effects = DAY_EFFECT * draw_day_values(days, correlation, random)
    label = random.random(len(day)) < _compute_logistic(-1.2 + day_effects[day] + signal)
    scores = []
    for deviation in (noise.candidate, noise.champion):
        weight = 1 + QUALITY * draw_day_values(days, correlation, random)
        noisy_signal = weight[day] * signal + deviation * random.normal(size=len(day))
        scores.append(_compute_logistic(-1.2 + noisy_signal / (1 + deviation**2)))
    return ScoredRows(label, scores[0], scores[1], day)


@functools.cache
def find_noise(auc: float) -> float:
    """Find the standard deviation of the noise with which a model has this AUC, by bisection.

    Each step uses the same random numbers.
    """
    low, high = MIN_NOISE, MAX_NOISE
    for _ in range(10):
        middle = (low + high) / 2
        rows = _simulate_many_rows(Noise(middle, 1.0))
        is_better = compute_metric(rows.label, rows.candidate, "auc") > auc
        low, high = (middle, high) if is_better else (low, middle)
    return (low + high) / 2


def _simulate_many_rows(noise: Noise) -> ScoredRows:
    return simulate(noise, 5_000, 100, 0.0, np.random.default_rng(7))


@functools.cache
def _compute_truth(noise: Noise, metric: str) -> float:
    """Return the true value of the candidate's metric."""
    rows = _simulate_many_rows(noise)
    return compute_metric(rows.label, rows.candidate, metric)


def _compute_logistic(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))
