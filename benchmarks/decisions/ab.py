"""Simulate A/B tests that are evaluated every day. Count the wrong decisions, and the differences that the tests find.

The values of the rows have a long tail, like a log loss: a gamma distribution of shape 0.5 and mean 0.4. The sequential
test is compared with Wald's interval of 95 %, which has the same standard error and is valid for only one evaluation.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.ab_test.report import MIN_DAYS
from pipelines.evaluation.statistics.sequential import (
    PLANNED_ROWS,
    DailySums,
    estimate_difference,
    estimate_rows,
)

Array = np.ndarray[Any, Any]
TESTS, DAYS, ROWS, ALPHA = 1000, 90, 200, 0.05
"""Tests of each case; days of a test; rows of a day, both versions together; probability of a wrong decision."""
SHAPE, MEAN = 0.5, 0.4
"""Shape and mean of the values' gamma distribution."""
WALD_HALF_WIDTH = 1.959963984540054
"""Half of the width of Wald's interval of 95 %, in standard errors."""


@dataclass(frozen=True)
class Case:
    """The share of the second version, and how the difference between the versions changes from day to day."""

    second_version_share: float = 0.5
    """Share of the rows that the second version gets."""
    day_change: float = 0.0
    """Standard deviation, from day to day, of the difference between the versions, as a share of the mean."""
    correlation: float = 0.0
    """Correlation between the differences of consecutive days."""


CASES = {
    "equal shares": Case(),
    "10 % get the second version": Case(second_version_share=0.1),
    "the difference changes by day (sd 15 %)": Case(day_change=0.15),
    "the same, correlated by 0.5 with the day before": Case(day_change=0.15, correlation=0.5),
}
EFFECTS = (0.0, 0.1, 0.2)
"""Differences of the means, as shares of the mean."""


@dataclass(frozen=True)
class FirstDecisions:
    """The first day on which a test decides, from 1; 0 if it never decides."""

    sequential_day: int
    """By the confidence sequence of `ab report`."""
    wald_day: int
    """By Wald's interval."""


def run() -> dict[str, Any]:
    """Return how many tests decide, and on which day, by case and true difference."""
    facts = {"tests of a case": f"{TESTS}; standard error of 5 %: {math.sqrt(0.05 * 0.95 / TESTS):.1%}"}
    seconds: dict[str, list[float]] = {}
    for name, case in CASES.items():
        for effect in EFFECTS:
            start_s = time.perf_counter()
            tests = [simulate_test(np.random.default_rng([5, number]), case, effect) for number in range(TESTS)]
            label = f"{name}, " + (f"true difference {effect:.0%}" if effect else "no difference")
            facts[f"{label}: decided within {DAYS} days"] = _describe([test.sequential_day for test in tests])
            facts[f"{label}: decided by Wald's interval at some look"] = _describe([test.wald_day for test in tests])
            seconds[label] = [time.perf_counter() - start_s]
    rows = estimate_rows(MEAN**2 / SHAPE, 0.1 * MEAN, ALPHA, 0.8)
    facts["equal shares: rows that a difference of 10 % needs, power 0.8"] = f"{rows:,}, {rows / ROWS:.0f} days"
    return {"facts": facts, "seconds": seconds}


def simulate_test(random: np.random.Generator, case: Case, effect: float, days: int = DAYS) -> FirstDecisions:
    """Simulate one test, and evaluate it after each day from day `MIN_DAYS` on.

    Args:
        random: source of randomness.
        case: the share of the second version, and how the difference changes from day to day.
        effect: true difference, as a share of the mean.
        days: length of the test.
    """
    changes = _draw_changes(random, case, days)
    second_rows = round(ROWS * case.second_version_share)
    first = random.gamma(SHAPE, MEAN / SHAPE, (days, ROWS - second_rows))
    second = random.gamma(SHAPE, MEAN / SHAPE, (days, second_rows)) + MEAN * (effect + changes)[:, None]
    samples = [
        DailySums(np.full(days, float(values.shape[1])), values.sum(axis=1), (values**2).sum(axis=1))
        for values in (first, second)
    ]
    sequential_day = wald_day = 0
    for day in range(MIN_DAYS, days + 1):
        difference = estimate_difference([item.select_first(day) for item in samples], ALPHA, PLANNED_ROWS)
        if not sequential_day and not difference.low <= 0 <= difference.high:
            sequential_day = day
        if not wald_day and abs(difference.value) > WALD_HALF_WIDTH * difference.se:
            wald_day = day
    return FirstDecisions(sequential_day, wald_day)


def _draw_changes(random: np.random.Generator, case: Case, days: int) -> Array:
    """Draw the change of the difference on each day, with mean 0."""
    noise = random.normal(0, case.day_change, days)
    changes = np.empty(days)
    changes[0] = noise[0]
    for day in range(1, days):
        changes[day] = case.correlation * changes[day - 1] + math.sqrt(1 - case.correlation**2) * noise[day]
    return changes


def _describe(days: list[int]) -> str:
    """Describe the share of tests that decide, and the median day of their decisions. Day 0 means no decision."""
    decision_days = [day for day in days if day]
    share = f"{len(decision_days) / len(days):.1%}"
    return f"{share}, median day {int(np.median(decision_days))}" if decision_days else share
