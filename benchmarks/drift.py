"""Drift on synthetic years: false alarms of stationary ones, days until planted shifts are found.

A year has days whose rows share something (each day its own shift of each column), weeks with seasons, 25 columns of
10 bins and a rate of missing values. Windows are the last seven days, the reference the eight weeks before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy import special

from pipelines.monitoring.drift import Decision, Finding, Policy, WindowResult, columns, decide_each, measures
from pipelines.monitoring.drift.alarms import find_breaches
from pipelines.monitoring.drift.counts import Column, Counts
from pipelines.monitoring.drift.dispersion import Sample, null

Array = np.ndarray[Any, Any]
COLUMNS, BINS, DAYS, REFERENCE_DAYS, WINDOW_DAYS = 25, 10, 365, 56, 7
ROWS = 900
"""A day's rows, as of the flights."""
DAY, WEEK = 0.10, 0.15
"""Standard deviations of a day's and a weekday's shift, in those of the column."""
YEARS = 24
"""Simulated for each rate of false alarms; half as many for each delay."""
START = 100
"""Day of the year on which a shift is planted."""
Plant = Callable[[Array, Array], Array]
"""What is done to the shifts, shape (days, columns), given the days since `START`."""


def sudden(shift: Array, since: Array) -> Array:
    """A fifth of the columns move by 0.5 standard deviations, at once."""
    shift[since >= 0, : COLUMNS // 5] += 0.5
    return shift


def gradual(shift: Array, since: Array) -> Array:
    """The same columns move by 1 standard deviation, over 60 days."""
    shift[:, : COLUMNS // 5] += np.clip(since / 60, 0, 1)[:, np.newaxis]
    return shift


def one_feature(shift: Array, since: Array) -> Array:
    """One column moves by 0.7 standard deviations."""
    shift[since >= 0, 3] += 0.7
    return shift


def stuck(shift: Array, since: Array) -> Array:
    """One column has its last value only."""
    shift[since >= 0, 7] = np.inf
    return shift


PLANTS: dict[str, Plant] = {"sudden": sudden, "gradual": gradual, "one feature": one_feature, "stuck sensor": stuck}


@dataclass(frozen=True)
class Year:
    """Days of the reference and of a year after it."""

    bins: Array
    """Shape (columns, days, bins)."""
    present: Array
    """Shape (columns, days, 2): rows with and without a value."""


def year(random: np.random.Generator, plant: Plant | None = None, memory: float = 0.0, day: float = DAY) -> Year:
    """A year; `memory` is how much of a day's shift the next day keeps: 0, days are independent."""
    days = REFERENCE_DAYS + DAYS
    common, own = _days(random, (days, 1), memory), _days(random, (days, COLUMNS), memory)
    weekly = random.normal(0, WEEK, (7, COLUMNS))
    shift = day * (0.6 * common + 0.8 * own) + weekly[np.arange(days) % 7]
    if plant:
        shift = plant(shift, np.arange(days) - REFERENCE_DAYS - START)
    rows = random.poisson(ROWS * (1 + 0.2 * (np.arange(days) % 7 < 5)))[:, np.newaxis]
    missing = random.binomial(rows, special.expit(-4 + 0.3 * random.normal(size=(days, COLUMNS))))
    edges = special.ndtri(np.arange(1, BINS) / BINS)
    below = special.ndtr(edges - shift[..., np.newaxis])
    chances = np.maximum(np.diff(below, axis=-1, prepend=0.0, append=1.0), 0.0)
    counts = random.multinomial(rows - missing, chances)
    present = np.stack([rows - missing, missing], axis=-1)
    return Year(counts.transpose(1, 0, 2).astype(float), present.transpose(1, 0, 2).astype(float))


def windows(one: Year, by_day: bool = True) -> list[WindowResult]:
    """The year's windows, as `columns.window` makes them one by one, here all columns at once.

    Args:
        one: the year.
        by_day: no: rows are taken as independent, as is usual.
    """
    then = [_sample(counts, np.arange(REFERENCE_DAYS), by_day) for counts in (one.bins, one.present)]
    return [_window(one, then, last, by_day) for last in range(REFERENCE_DAYS + WINDOW_DAYS - 1, REFERENCE_DAYS + DAYS)]


def began(flags: Sequence[bool]) -> int:
    """How often a run of yes began."""
    return sum(now and not before for before, now in zip([False, *flags], flags, strict=False))


def alarms(told: Iterable[Decision]) -> int:
    """How often an alarm began."""
    return began([one.is_drift for one in told])


def found(history: Sequence[WindowResult]) -> list[bool]:
    """Whether each window has a significant finding, whatever its effect: what the p-values do by themselves."""
    any_effect = Policy(bounds={"psi": 1e-6, "missing": 1e-6})
    return [bool(find_breaches(one, any_effect)) for one in history]


def delay(told: Sequence[Decision]) -> int | None:
    """Days of the planted shift until the decision that found it; None: never."""
    first = START - WINDOW_DAYS + 1
    return next((place - first + 1 for place, one in enumerate(told) if place >= first and one.is_drift), None)


def _days(random: np.random.Generator, shape: tuple[int, int], memory: float) -> Array:
    noise = random.normal(size=shape)
    for place in range(1, len(noise)):
        noise[place] = memory * noise[place - 1] + np.sqrt(1 - memory**2) * noise[place]
    return noise


def _sample(counts: Array, days: Array, by_day: bool) -> Sample:
    if by_day:
        return Sample.of(counts[:, days], days % 7)
    return Sample.of(counts[:, days].sum(axis=1, keepdims=True), np.zeros(1))


def _window(one: Year, references: Sequence[Sample], last: int, by_day: bool) -> WindowResult:
    days = np.arange(last - WINDOW_DAYS + 1, last + 1)
    findings: list[Finding] = []
    for then, counts, measure in zip(references, (one.bins, one.present), ("psi", "missing"), strict=True):
        now = _sample(counts, days, by_day)
        totals = then.total, now.total
        rate = measure == "missing"
        effects = _rate(*totals) if rate else measures.psi(*totals)
        statistic = measures.pearson(*totals) if rate else effects * measures.scale(*totals)
        told = zip(effects.tolist(), null(then, now).quadratic(statistic).tolist(), strict=True)
        findings += [Finding(f"x{place}", measure, *pair, 1 / COLUMNS) for place, pair in enumerate(told)]  # type: ignore[arg-type]
    return WindowResult(str(_date(last)), int(one.present[0, days].sum()), tuple(findings))


def _rate(reference: Array, window: Array) -> Array:
    return np.asarray(np.abs(measures.shares(window)[:, 1] - measures.shares(reference)[:, 1]))


def _date(place: int) -> date:
    return date(2024, 1, 1) + timedelta(days=place)


def column_of(one: Year, place: int, then: Array, now: Array) -> Column:
    """The same column as `columns.examine` takes it."""
    before, after = (Counts(one.bins[place, days], one.present[place, days, 1], days % 7) for days in (then, now))
    edges = special.ndtri(np.arange(1, BINS) / BINS)
    return Column(f"x{place}", "numeric", before, after, edges=edges, weight=1 / COLUMNS)


def run() -> dict[str, Any]:
    """Facts: false alarms a year, and delays. Seconds: a window of 25 columns, and a year's decisions."""
    policy = Policy()
    facts: dict[str, str] = {}
    for name, memory, day, by_day in (
        ("days independent", 0.0, DAY, True),
        ("days remember half of the day before", 0.5, DAY, True),
        ("rows taken as independent", 0.0, DAY, False),
        ("days five times as different", 0.0, 5 * DAY, True),
        ("days five times as different, rows taken as independent", 0.0, 5 * DAY, False),
    ):
        facts |= {f"{what} a year, {name}": told for what, told in _false(memory, day, by_day).items()}
    for name, plant in PLANTS.items():
        found = [
            delay(list(decide_each(windows(year(np.random.default_rng([2, n]), plant)), policy)))
            for n in range(YEARS // 2)
        ]
        facts[f"days to detection, {name}"] = _delays(found)
    return {"facts": facts, "seconds": _seconds(policy)}


def _false(memory: float, day: float, by_day: bool) -> dict[str, str]:
    """What is found in years without drift."""
    years = [windows(year(np.random.default_rng([1, n]), memory=memory, day=day), by_day) for n in range(YEARS)]
    told = {
        "false alarms": sum(alarms(decide_each(one, Policy())) for one in years),
        "windows with a significant finding": sum(sum(found(one)) for one in years),
        "runs of such windows": sum(began(found(one)) for one in years),
    }
    return {name: f"{number / YEARS:.2f} in {YEARS} years" for name, number in told.items()}


def _delays(found: list[int | None]) -> str:
    known = [one for one in found if one is not None]
    missed = f", missed in {len(found) - len(known)} of {len(found)}"
    return f"median {np.median(known):.0f}, {min(known)} to {max(known)}{missed}" if known else "never"


def _seconds(policy: Policy) -> dict[str, list[float]]:
    one = year(np.random.default_rng(3))
    then, now = np.arange(REFERENCE_DAYS), np.arange(REFERENCE_DAYS, REFERENCE_DAYS + DAYS)
    inputs = [column_of(one, place, then, now) for place in range(COLUMNS)]
    history = windows(one)
    return {
        "all measures of 25 columns, a window of 365 days": [
            _time(lambda: columns.window("", 1, inputs)) for _ in range(3)
        ],
        "a decision from 359 windows": [_time(lambda: list(decide_each(history, policy))) for _ in range(3)],
    }


def _time(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
