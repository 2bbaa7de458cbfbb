"""Simulate how often the intervals of a regression's metrics miss the truth, and how often the gate promotes wrongly.

The rows of a simulated day share its weather, which moves the label, and the quality of each model on that day. There
are two kinds of weather: independent from day to day, and correlated by 0.5 with the day before. True values are those
of 500,000 rows of 5,000 independent days.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.decisions.coverage import INTERVAL_ROWS, KINDS, Days, draw_day_values, format_share, measure_cases
from pipelines.evaluation.gates import Policy, combine_outcomes
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import Evidence, judge
from pipelines.evaluation.gates.policy import Slices
from pipelines.evaluation.statistics import bootstrap
from pipelines.evaluation.statistics.weighted import REGRESSION_METRICS, compute_metric

INTERVALS, VERDICTS = 700, 300
"""Simulations of a case, for intervals and for verdicts."""
VERDICT_ROWS = 200
"""Rows of a day where a verdict is simulated."""
DAYS = (14, 28, 60)
WEATHER, QUALITY, NOISE = 5.0, 2.0, 8.0
"""Standard deviations, minutes: of a day's mean label, of a model's error on all rows of a day, of a row's label."""
ERROR = 4.0
"""Standard deviation of the noise that a model adds to each row, minutes."""


def run() -> dict[str, Any]:
    """Simulate intervals and verdicts for each number of days and both kinds of weather."""
    return measure_cases(DAYS, INTERVALS, VERDICTS, _measure)


def _measure(kind: str, days: int) -> dict[str, str]:
    return _measure_intervals(days, KINDS[kind]) | _measure_verdicts(days, KINDS[kind])


def simulate(days: int, rows_per_day: int, correlation: float, error: float, random: np.random.Generator) -> Days:
    """Simulate labels in minutes, with the scores of a candidate with this error, and of a champion with `ERROR`."""
    day = np.repeat(np.arange(days), rows_per_day)
    signal = random.normal(0.0, 12.0, size=len(day))
    weather = WEATHER * draw_day_values(days, correlation, random)
    # Delays have a long tail to one side.
    label = 10.0 + signal + weather[day] + NOISE * (random.exponential(size=len(day)) - 1.0)
    scores = [
        10.0
        + signal
        + QUALITY * draw_day_values(days, correlation, random)[day]
        + random.normal(0.0, model_error, size=len(day))
        for model_error in (error, ERROR)
    ]
    return Days(label, scores[0], scores[1], day)


def _measure_intervals(days: int, correlation: float) -> dict[str, str]:
    """Count how often 95 % intervals contain the truth: of each metric, and of differences of equal models."""
    counts: Counter[str] = Counter()
    for number in range(INTERVALS):
        rows = simulate(days, INTERVAL_ROWS, correlation, ERROR, np.random.default_rng([days, number]))
        options: dict[str, Any] = {"alpha": 0.025, "seed": 1, "groups": rows.day}
        for name in REGRESSION_METRICS:
            estimate = bootstrap.estimate_metric(rows.label, rows.candidate, name, **options)
            counts[name] += estimate.low <= _compute_truth(name) <= estimate.high
        for name in ("rmse", "r2"):
            difference = bootstrap.estimate_difference(rows.label, rows.candidate, rows.champion, name, **options)
            counts[f"difference of {name}"] += difference.low <= 0.0 <= difference.high
    return {
        f"{name}: 95 % interval contains the truth": format_share(count, INTERVALS) for name, count in counts.items()
    }


def _measure_verdicts(days: int, correlation: float) -> dict[str, str]:
    """Judge by the default policy: an equal candidate, and one whose R2 is worse by twice the tolerated margin."""
    facts = {}
    for title, loss in {"equal models": 0.0, "candidate 0.01 R2 below the champion": 0.01}.items():
        outcomes: Counter[str] = Counter()
        for number in range(VERDICTS):
            random = np.random.default_rng([days, number, 1])
            rows = simulate(days, VERDICT_ROWS, correlation, _compute_error(loss), random)
            outcomes[_judge(rows, random)] += 1
        facts[f"{title}: verdicts"] = ", ".join(
            f"{outcome} {format_share(count, VERDICTS)}" for outcome, count in sorted(outcomes.items())
        )
    return facts


def _judge(rows: Days, random: np.random.Generator) -> str:
    dates = pd.Timestamp("2013-03-01") + pd.to_timedelta(rows.day, unit="D")
    frame = pd.DataFrame({"date": dates, "origin": random.choice(["EWR", "JFK", "LGA"], len(rows.day))})
    holdout = Holdout(rows.label, rows.candidate, rows.champion, frame, 10.0, 10.0, task="regression")
    policy = Policy(group_by="date", slices=Slices(columns=["origin"]), min_rows=1_000, serving=None)
    return combine_outcomes(judge(Evidence(holdout), policy).checks)


@functools.cache
def _compute_truth(metric: str, error: float = ERROR) -> float:
    rows = simulate(5_000, 100, 0.0, error, np.random.default_rng(7))
    return compute_metric(rows.label, rows.candidate, metric)


@functools.cache
def _compute_error(loss: float) -> float:
    """Compute the error, in minutes, of a model whose R2 is lower by `loss` than that of a model with error `ERROR`."""
    label_variance = (_compute_truth("rmse") ** 2) / (1 - _compute_truth("r2"))
    return math.sqrt(ERROR**2 + loss * label_variance)
