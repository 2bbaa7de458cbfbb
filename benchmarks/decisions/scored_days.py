"""Simulate days that a model scored: the profiles of features, scores and labels, with or without drift.

A day has random effects that all its rows share, as real days have by their weather. The effects of a day can be
correlated with those of the day before. Weekdays differ.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from pipelines.monitoring.profiles.column_plans import JOINT
from pipelines.monitoring.profiles.profile import Column, Profile
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import SCORE_EDGES, CategoryBins, NumberBins, Reference

Array = np.ndarray[Any, Any]
FIRST_DAY = dt.date(2024, 1, 1)
TRAINING_DAYS, HOLDOUT_DAYS = 60, 28
ROWS = 900
"""Rows of a day, as in the flights; a fifth more on working days."""
DAY_DEVIATION, WEEKDAY_DEVIATION = 0.1, 0.1
"""Standard deviations of a feature's shifts by day and by weekday, in standard deviations of the feature."""
SCORE_DEVIATION, RATE_DEVIATION, SLOPE_DEVIATION = 0.2, 0.3, 0.15
"""Standard deviations between days.

SCORE_DEVIATION / 2: of the mean of the scores' logits, and of the logarithm of their spread.
RATE_DEVIATION: of the labels' logit. SLOPE_DEVIATION: of the slope of the labels' logit over the scores' logit.
"""
EDGES = tuple(float(edge) for edge in special.ndtri(np.arange(1, 10) / 10))
"""Edges of the bins of a number: the deciles of the standard normal distribution."""
NUMBERS = tuple(NumberBins(name=f"x{n}", family="number", edges=EDGES, center=0.0) for n in range(2))
CATEGORIES = (CategoryBins(name="g", family="text", values=tuple("abcde"), rest=("f", "g")),)
CATEGORY_LOGITS = np.log([0.3, 0.25, 0.2, 0.15, 0.07, 0.025, 0.005])
"""Logits of the values a to e, of other values, and of values that the training did not have."""
REFERENCE = Reference(label="late", numbers=NUMBERS, categories=CATEGORIES)
BIN_SCORES = (np.arange(20) + 0.5) / 20
BIN_LOGITS = special.logit(BIN_SCORES)
"""The middle of each of the 20 bins of scores, and its logit."""
MEAN_LOGIT, LOGIT_DEVIATION = -1.3, 0.9
"""Mean and standard deviation of the scores' logits. They give an AUC of 0.73."""


@dataclass(frozen=True)
class Drift:
    """What changes on the days with drift; nothing by default."""

    slope: float = 0.0
    """Change of the slope of the labels' logit over the scores'. Below 0, the model ranks worse: labels show it."""
    spread: float = 1.0
    """Factor of the spread of the scores. Below 1, rows are harder to tell apart; the scores themselves show it."""
    rate: float = 0.0
    """Shift of the labels' logit."""
    feature: float = 0.0
    """Shift of the first feature, in its standard deviations."""


NO_DRIFT = Drift()


@dataclass(frozen=True)
class ScoredDays:
    """Counts of the rows of consecutive days. The first index of each array is the day."""

    numbers: Array
    """Rows in each bin, shape (days, number features, bins)."""
    categories: Array
    """Rows of each value, shape (days, category features, values)."""
    missing: Array
    """Rows without a value, shape (days, features); the number features come first."""
    joint: Array
    """Rows by score and label, shape (days, 20, 2)."""

    @cached_property
    def profiles(self) -> dict[dt.date, Profile]:
        """The profiles of the days, as `profiles.counting.count_days` would return them."""
        return {FIRST_DAY + dt.timedelta(n): self._build_profile(n) for n in range(len(self.joint))}

    def _build_profile(self, day: int) -> Profile:
        rows = int(self.joint[day].sum())
        return Profile(REFERENCE.digest, rows, (*self._build_features(day), *_build_outcome_columns(self.joint[day])))

    def _build_features(self, day: int) -> Iterator[Column]:
        missing_counts = [int(rows) for rows in self.missing[day]]
        for n, number in enumerate(NUMBERS):
            yield Column(number.name, "number", tuple(map(int, self.numbers[day, n])), missing_counts[n])
        for n, category in enumerate(CATEGORIES):
            counts = tuple(map(int, self.categories[day, n]))
            yield Column(category.name, "category", counts, missing_counts[len(NUMBERS) + n])


def simulate_days(
    random: np.random.Generator, days: int, correlation: float = 0.0, drift: Drift = NO_DRIFT, drift_start: int = 0
) -> ScoredDays:
    """Simulate days, oldest first.

    Args:
        random: the generator.
        days: number of days.
        correlation: correlation of the effects of consecutive days, 0 to 1; 0 makes days independent.
        drift: what changes.
        drift_start: index of the first day with the drift, from 0.
    """
    is_drift_day = (np.arange(days) >= drift_start).astype(float)
    day_effects = simulate_day_effects(random, (days, len(NUMBERS) + len(CATEGORIES) + 5), correlation)
    # Columns: one effect on all features, one on each feature, three on the outcomes, and one that is not used.
    common_effects, own_effects = day_effects[:, :1], day_effects[:, 1:]
    # The standard deviation of the sum is 1, because 0.6**2 + 0.8**2 is 1.
    feature_effects = 0.6 * common_effects + 0.8 * own_effects[:, : len(NUMBERS) + len(CATEGORIES)]
    weekdays = np.arange(days) % 7
    rows = random.poisson(ROWS * (1 + 0.2 * (weekdays < 5)))
    missing_counts = random.binomial(
        rows[:, np.newaxis], special.expit(-4 + 0.3 * random.normal(size=feature_effects.shape))
    )
    present_rows = rows[:, np.newaxis] - missing_counts
    weekday_shifts = random.normal(0, WEEKDAY_DEVIATION, (7, feature_effects.shape[1]))[weekdays]
    shifts = DAY_DEVIATION * feature_effects + weekday_shifts
    shifts[:, 0] += drift.feature * is_drift_day
    number_shifts, category_shifts = np.split(shifts, [len(NUMBERS)], axis=1)
    return ScoredDays(
        _draw_numbers(random, number_shifts, present_rows[:, : len(NUMBERS)]),
        _draw_categories(random, category_shifts, present_rows[:, len(NUMBERS) :]),
        missing_counts,
        simulate_outcomes(random, rows, own_effects[:, -4:-1], drift, is_drift_day),
    )


def simulate_day_effects(random: np.random.Generator, shape: tuple[int, ...], correlation: float) -> Array:
    """Simulate standard normal numbers; each row is correlated with the row before."""
    noise = random.normal(size=shape)
    for index in range(1, len(noise)):
        noise[index] = correlation * noise[index - 1] + np.sqrt(1 - correlation**2) * noise[index]
    return noise


def simulate_outcomes(
    random: np.random.Generator,
    rows: Array,
    day_effects: Array,
    drift: Drift = NO_DRIFT,
    is_drift_day: Array | float = 0.0,
) -> Array:
    """Simulate the rows by score and label, shape (days, 20, 2).

    Args:
        random: the generator.
        rows: rows of each day.
        day_effects: effects of the days on the scores' spread, on the scores' mean and the labels' rate, and on the
            labels' slope; shape (days, 3).
        drift: what changes.
        is_drift_day: 1 on days with the drift, else 0.
    """
    score_effects, rate_effects, slope_effects = (day_effects[:, [n]] for n in range(3))
    drift_days = np.broadcast_to(np.asarray(is_drift_day), (len(rows),))[:, np.newaxis]
    # The effects change the mean and the spread of the scores, so an AUC estimated from the scores varies by day, too.
    deviation = LOGIT_DEVIATION * (1 + (drift.spread - 1) * drift_days) * np.exp(SCORE_DEVIATION / 2 * score_effects)
    edges = special.logit(np.array(SCORE_EDGES[1:-1]))
    shares_below = special.ndtr((edges - MEAN_LOGIT - SCORE_DEVIATION / 2 * rate_effects) / deviation)
    histogram = random.multinomial(rows, np.diff(shares_below, axis=-1, prepend=0.0, append=1.0))
    slope = 1 + SLOPE_DEVIATION * slope_effects + drift.slope * drift_days
    logit = MEAN_LOGIT + slope * (BIN_LOGITS - MEAN_LOGIT) + RATE_DEVIATION * rate_effects + drift.rate * drift_days
    late_rows = random.binomial(histogram, special.expit(logit))
    return np.stack([histogram - late_rows, late_rows], axis=-1).astype(float)


def build_record(days: ScoredDays) -> ReferenceRecord:
    """Return the record of a model that was trained on the first `TRAINING_DAYS`; the next days are its holdout."""
    profiles = list(days.profiles.items())
    holdout_end = TRAINING_DAYS + HOLDOUT_DAYS
    return ReferenceRecord(REFERENCE, dict(profiles[:TRAINING_DAYS]), dict(profiles[TRAINING_DAYS:holdout_end]))


def _draw_numbers(random: np.random.Generator, shifts: Array, rows: Array) -> Array:
    """Draw the rows in each bin, for each day and number feature. `shifts` are the means of the features."""
    shares_below = special.ndtr(np.array(EDGES) - shifts[..., np.newaxis])
    return random.multinomial(rows, np.diff(shares_below, axis=-1, prepend=0.0, append=1.0))


def _draw_categories(random: np.random.Generator, shifts: Array, rows: Array) -> Array:
    """Draw the rows of each value, for each day and category. A shift above 0 makes the last values more frequent."""
    directions = np.linspace(-1, 1, len(CATEGORY_LOGITS))
    return random.multinomial(rows, special.softmax(CATEGORY_LOGITS + shifts[..., np.newaxis] * directions, axis=-1))


def _build_outcome_columns(joint_counts: Array) -> Iterator[Column]:
    """Build the columns of the score, of the label, and of both. No score is outside [0, 1]."""
    counts_by_score = tuple(map(int, joint_counts.sum(axis=1)))
    yield Column("score", "score", (0, *counts_by_score, 0))
    yield Column(REFERENCE.label, "label", tuple(map(int, joint_counts.sum(axis=0))))
    counts_by_label = [(0, *map(int, joint_counts[:, label]), 0) for label in (0, 1)]
    sums = np.array([[0, *BIN_SCORES, 0]] * 2) * np.array(counts_by_label)
    yield Column(JOINT, "joint", (*counts_by_label[0], *counts_by_label[1]), sums=tuple(map(float, sums.ravel())))
