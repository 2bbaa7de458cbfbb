"""Simulate how often the gate's intervals miss the truth, and how often the shipped policy promotes wrongly.

A day has an effect that all its rows share: it changes the rate of the label, and how well each model does on that day.
The effects are independent from day to day, or correlated by 0.5 with the day before. True
values are those of 500,000 rows of 5,000 independent days.
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
from pipelines.evaluation.gates.judge import Evidence, judge
from pipelines.evaluation.statistics import bootstrap
from pipelines.evaluation.statistics.mcnemar import run_mcnemar_test
from pipelines.evaluation.statistics.weighted import compute_metric

ROWS_PER_DAY = {14: 360, 28: 180, 60: 84}
"""Rows of a day where a verdict is simulated, by number of days. In total they are just over the policy's min_rows."""
INTERVAL_ROWS = 100
"""Rows of a day where intervals are simulated."""
INTERVALS, VERDICTS = 700, 120
"""Simulations of a case, for intervals and for verdicts."""
THRESHOLD = 0.3
"""Smallest score with which a row counts as predicted to have label 1, in McNemar's test."""
DAY_EFFECT, QUALITY = 0.5, 0.4
"""Standard deviations between days: of the label's log odds, and of a model's weight of the signal."""
MIN_NOISE, MAX_NOISE = 0.0, 6.0
"""Least and largest standard deviation of the noise that a model adds to the signal."""


@dataclass(frozen=True)
class Days:
    """Rows of simulated days, with the scores of two models."""

    label: Array
    candidate: Array
    champion: Array
    day: Array


@dataclass(frozen=True)
class Case:
    """Two models: the noise that each adds to the signal."""

    candidate: float
    champion: float


def run() -> dict[str, Any]:
    """Simulate intervals and verdicts for 7, 14, 28 and 60 days, and for independent and correlated days."""
    return measure_cases((7, *ROWS_PER_DAY), {"interval": (INTERVALS, 0.95), "verdict": (VERDICTS, 0.05)}, _measure)


def _measure(kind: str, days: int) -> dict[str, str]:
    """Measure intervals, and, if `ROWS_PER_DAY` has the number of days, verdicts."""
    facts = _measure_intervals(kind, days)
    if days not in ROWS_PER_DAY:
        return facts
    equal_models = Case(1.0, 1.0)
    noise_of_worse_model, noise_of_weak_model = find_noise(_compute_truth(equal_models, "auc") - 0.02), find_noise(0.58)
    for name, case in {
        "equal models": equal_models,
        "candidate 0.02 AUC below the champion": Case(noise_of_worse_model, 1.0),
        "candidate and champion with an AUC of 0.58": Case(noise_of_weak_model, noise_of_weak_model),
    }.items():
        facts |= {f"{name}: {fact}": value for fact, value in _measure_verdicts(kind, days, case).items()}
    return facts


def _measure_intervals(kind: str, days: int) -> dict[str, str]:
    """Count how often 95 % intervals contain the truth, and how often McNemar's test rejects equal models at 5 %."""
    equal_models = Case(1.0, 1.0)
    truth = {name: _compute_truth(equal_models, name) for name in ("auc", "ece")}
    misses, rejections = Misses(), 0
    for number in range(INTERVALS):
        rows = simulate(equal_models, days, INTERVAL_ROWS, CORRELATIONS[kind], np.random.default_rng([days, number]))
        options: dict[str, Any] = {"alpha": 0.025, "seed": 1, "groups": rows.day}
        for name, value in truth.items():
            misses.add(name, bootstrap.estimate_metric(rows.label, rows.candidate, name, **options), value)
        models = (rows.label, rows.candidate, rows.champion)
        misses.add("difference of AUC", bootstrap.estimate_difference(*models, "auc", **options), 0.0)
        misses.add("difference of log loss", bootstrap.estimate_difference(*models, "log_loss", **options), 0.0)
        test = run_mcnemar_test(*models, THRESHOLD, groups=rows.day)
        rejections += test.p_value <= 0.05
    facts = misses.describe(("auc", "difference of AUC", "difference of log loss", "ece"), INTERVALS)
    return facts | {"McNemar by days of equal models: p at most 5 %": format_share(rejections, INTERVALS)}


def _measure_verdicts(kind: str, days: int, case: Case) -> dict[str, str]:
    """Judge simulated holdouts by the policy of params.yaml, with McNemar's test at a threshold added."""
    policy = load_policy()
    verdicts: Counter[str] = Counter()
    outcome_counts: dict[str, Counter[str]] = {}
    for number in range(VERDICTS):
        random = np.random.default_rng([days, number, 1])
        holdout = build_holdout(simulate(case, days, ROWS_PER_DAY[days], CORRELATIONS[kind], random), random)
        checks = judge(Evidence(holdout), policy).checks
        for check in checks:
            outcome_counts.setdefault(check.name, Counter())[check.outcome] += 1
        verdicts[combine_outcomes(checks)] += 1
        verdicts["shipped"] += combine_outcomes(check for check in checks if "correctly" not in check.name) == "passed"
    facts = {"verdict of the shipped policy is passed": format_share(verdicts["shipped"], VERDICTS)}
    for name, counter in outcome_counts.items():
        outcomes = ", ".join(f"{outcome} {format_share(counter[outcome], VERDICTS)}" for outcome in sorted(counter))
        facts[name] = outcomes
    return facts


def load_policy() -> Policy:
    """Return the policy of params.yaml with a threshold for McNemar's test, without checks of packages and leaks."""
    section = yaml.safe_load((Path(__file__).parents[2] / "params.yaml").read_text("utf-8"))["gate"]["policy"]
    return Policy(**{**section, "threshold": THRESHOLD, "serving": None, "max_solo_auc": None})


def build_holdout(rows: Days, random: np.random.Generator) -> Holdout:
    """Build a holdout with the columns that the shipped policy names."""
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(rows.day, unit="D")
    origins = random.choice(["EWR", "JFK", "LGA"], len(rows.day))
    frame = pd.DataFrame({"date": dates, "origin": origins})
    rate = float(rows.label.mean())
    return Holdout(rows.label.astype(float), rows.candidate, rows.champion, frame, rate, rate)


def simulate(case: Case, days: int, rows_per_day: int, correlation: float, random: np.random.Generator) -> Days:
    """Simulate the rows of days; the rows of a day share its effect and the quality of each model."""
    day = np.repeat(np.arange(days), rows_per_day)
    signal = random.normal(size=len(day))
    day_effects = DAY_EFFECT * draw_day_values(days, correlation, random)
    label = random.random(len(day)) < _compute_logistic(-1.2 + day_effects[day] + signal)
    scores = []
    for noise in (case.candidate, case.champion):
        weight = 1 + QUALITY * draw_day_values(days, correlation, random)
        noisy_signal = weight[day] * signal + noise * random.normal(size=len(day))
        scores.append(_compute_logistic(-1.2 + noisy_signal / (1 + noise**2)))
    return Days(label, scores[0], scores[1], day)


@functools.cache
def find_noise(auc: float) -> float:
    """Find the noise with which a model has this AUC, by bisection on the same random numbers."""
    low, high = MIN_NOISE, MAX_NOISE
    for _ in range(10):
        middle = (low + high) / 2
        rows = _simulate_truth(Case(middle, 1.0))
        is_better = compute_metric(rows.label, rows.candidate, "auc") > auc
        low, high = (middle, high) if is_better else (low, middle)
    return (low + high) / 2


def _simulate_truth(case: Case) -> Days:
    return simulate(case, 5_000, 100, 0.0, np.random.default_rng(7))


@functools.cache
def _compute_truth(case: Case, metric: str) -> float:
    rows = _simulate_truth(case)
    return compute_metric(rows.label, rows.candidate, metric)


def _compute_logistic(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))
