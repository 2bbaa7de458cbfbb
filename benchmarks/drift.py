"""Simulate years with and without drift: count false alarms, and measure the days until planted shifts are detected.

Rows of a day are correlated (each day shifts each column), weekdays differ, and there are 25 columns of 10 bins with
missing values. A window is the last seven days; the reference is the eight weeks before the year.
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
from pipelines.monitoring.drift.dispersion import Sample, estimate_null

Array = np.ndarray[Any, Any]
COLUMNS, BINS, DAYS, REFERENCE_DAYS, WINDOW_DAYS = 25, 10, 365, 56, 7
ROWS = 900
"""Rows of a day, as in the flights."""
DAY, WEEK = 0.10, 0.15
"""Standard deviations of the shift of a day and of a weekday, in standard deviations of the column."""
YEARS = 24
"""Years that are simulated for each rate of false alarms; half as many for each delay."""
START = 100
"""Day of the year on which a shift is planted."""
Plant = Callable[[Array, Array], Array]
"""Changes the shifts, of shape (days, columns), given the days since `START`."""


def shift_suddenly(shift: Array, since: Array) -> Array:
    """Shift a fifth of the columns by 0.5 standard deviations at once."""
    shift[since >= 0, : COLUMNS // 5] += 0.5
    return shift


def shift_gradually(shift: Array, since: Array) -> Array:
    """Shift the same columns by 1 standard deviation over 60 days."""
    shift[:, : COLUMNS // 5] += np.clip(since / 60, 0, 1)[:, np.newaxis]
    return shift


def shift_one_feature(shift: Array, since: Array) -> Array:
    """Shift one column by 0.7 standard deviations."""
    shift[since >= 0, 3] += 0.7
    return shift


def fix_one_feature(shift: Array, since: Array) -> Array:
    """Set one column to its highest bin on all days."""
    shift[since >= 0, 7] = np.inf
    return shift


PLANTS: dict[str, Plant] = {
    "sudden": shift_suddenly,
    "gradual": shift_gradually,
    "one feature": shift_one_feature,
    "stuck sensor": fix_one_feature,
}


@dataclass(frozen=True)
class Year:
    """Counts of the days of the reference, and of the year after it."""

    bins: Array
    """Shape (columns, days, bins)."""
    present: Array
    """Shape (columns, days, 2): rows with a value, and without."""


def simulate_year(
    random: np.random.Generator, plant: Plant | None = None, memory: float = 0.0, day: float = DAY
) -> Year:
    """Simulate a year.

    Args:
        random: the generator.
        plant: the drift to plant; None for a year without drift.
        memory: autocorrelation of the daily shifts, 0 to 1; 0 makes days independent.
        day: standard deviation of the daily shifts.
    """
    days = REFERENCE_DAYS + DAYS
    common, own = _simulate_shifts(random, (days, 1), memory), _simulate_shifts(random, (days, COLUMNS), memory)
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


def compute_windows(simulated: Year, by_day: bool = True) -> list[WindowResult]:
    """Compute the results of all windows of a year, as `columns.summarize_window` does, but with all columns at once.

    Args:
        simulated: the year.
        by_day: whether results are corrected for within-day correlation. If not, rows count as independent.
    """
    then = [_build_sample(counts, np.arange(REFERENCE_DAYS), by_day) for counts in (simulated.bins, simulated.present)]
    return [
        _compute_window(simulated, then, last, by_day)
        for last in range(REFERENCE_DAYS + WINDOW_DAYS - 1, REFERENCE_DAYS + DAYS)
    ]


def count_runs(flags: Sequence[bool]) -> int:
    """Return the number of runs of consecutive True values."""
    return sum(now and not before for before, now in zip([False, *flags], flags, strict=False))


def count_alarms(decisions: Iterable[Decision]) -> int:
    """Return the number of alarms: runs of consecutive decisions for drift."""
    return count_runs([decision.is_drift for decision in decisions])


def find_significant(history: Sequence[WindowResult]) -> list[bool]:
    """Tell for each window whether it has a significant finding of any effect size, by the p-values alone."""
    any_effect = Policy(bounds={"psi": 1e-6, "missing": 1e-6})
    return [bool(find_breaches(window, any_effect)) for window in history]


def measure_delay(decisions: Sequence[Decision]) -> int | None:
    """Return the days from the planted shift to the first decision for drift; None where there is none."""
    first = START - WINDOW_DAYS + 1
    return next(
        (place - first + 1 for place, decision in enumerate(decisions) if place >= first and decision.is_drift), None
    )


def _simulate_shifts(random: np.random.Generator, shape: tuple[int, int], memory: float) -> Array:
    noise = random.normal(size=shape)
    for place in range(1, len(noise)):
        noise[place] = memory * noise[place - 1] + np.sqrt(1 - memory**2) * noise[place]
    return noise


def _build_sample(counts: Array, days: Array, by_day: bool) -> Sample:
    if by_day:
        return Sample.from_counts(counts[:, days], days % 7)
    return Sample.from_counts(counts[:, days].sum(axis=1, keepdims=True), np.zeros(1))


def _compute_window(simulated: Year, references: Sequence[Sample], last: int, by_day: bool) -> WindowResult:
    days = np.arange(last - WINDOW_DAYS + 1, last + 1)
    findings: list[Finding] = []
    for then, counts, measure in zip(references, (simulated.bins, simulated.present), ("psi", "missing"), strict=True):
        now = _build_sample(counts, days, by_day)
        totals = then.total, now.total
        rate = measure == "missing"
        effects = _compare_rates(*totals) if rate else measures.compute_psi(*totals)
        statistic = measures.compute_chi_square(*totals) if rate else effects * measures.compute_sample_factor(*totals)
        pairs = zip(
            effects.tolist(), estimate_null(then, now).compute_chi_square_p_value(statistic).tolist(), strict=True
        )
        findings += [Finding(f"x{place}", measure, *pair, 1 / COLUMNS) for place, pair in enumerate(pairs)]  # type: ignore[arg-type]
    return WindowResult(str(_get_date(last)), int(simulated.present[0, days].sum()), tuple(findings))


def _compare_rates(reference: Array, window: Array) -> Array:
    return np.asarray(np.abs(measures.compute_shares(window)[:, 1] - measures.compute_shares(reference)[:, 1]))


def _get_date(place: int) -> date:
    return date(2024, 1, 1) + timedelta(days=place)


def build_column(simulated: Year, place: int, then: Array, now: Array) -> Column:
    """Return one column of the year in the form that `columns.examine_column` takes."""
    before, after = (
        Counts(simulated.bins[place, days], simulated.present[place, days, 1], days % 7) for days in (then, now)
    )
    edges = special.ndtri(np.arange(1, BINS) / BINS)
    return Column(f"x{place}", "numeric", before, after, edges=edges, weight=1 / COLUMNS)


def run() -> dict[str, Any]:
    """Return facts (false alarms per year, delays) and seconds (a window of 25 columns, a year's decisions)."""
    policy = Policy()
    facts: dict[str, str] = {}
    for name, memory, day, by_day in (
        ("days independent", 0.0, DAY, True),
        ("days remember half of the day before", 0.5, DAY, True),
        ("rows taken as independent", 0.0, DAY, False),
        ("days five times as different", 0.0, 5 * DAY, True),
        ("days five times as different, rows taken as independent", 0.0, 5 * DAY, False),
    ):
        facts |= {f"{what} a year, {name}": text for what, text in _count_false_alarms(memory, day, by_day).items()}
    for name, plant in PLANTS.items():
        delays = [
            measure_delay(
                list(decide_each(compute_windows(simulate_year(np.random.default_rng([2, n]), plant)), policy))
            )
            for n in range(YEARS // 2)
        ]
        facts[f"days to detection, {name}"] = _describe_delays(delays)
    return {"facts": facts, "seconds": _measure_seconds(policy)}


def _count_false_alarms(memory: float, day: float, by_day: bool) -> dict[str, str]:
    """Count what is detected in years without drift."""
    years = [
        compute_windows(simulate_year(np.random.default_rng([1, n]), memory=memory, day=day), by_day)
        for n in range(YEARS)
    ]
    counts = {
        "false alarms": sum(count_alarms(decide_each(history, Policy())) for history in years),
        "windows with a significant finding": sum(sum(find_significant(history)) for history in years),
        "runs of such windows": sum(count_runs(find_significant(history)) for history in years),
    }
    return {name: f"{number / YEARS:.2f} in {YEARS} years" for name, number in counts.items()}


def _describe_delays(delays: list[int | None]) -> str:
    known = [delay for delay in delays if delay is not None]
    missed = f", missed in {len(delays) - len(known)} of {len(delays)}"
    return f"median {np.median(known):.0f}, {min(known)} to {max(known)}{missed}" if known else "never"


def _measure_seconds(policy: Policy) -> dict[str, list[float]]:
    simulated = simulate_year(np.random.default_rng(3))
    then, now = np.arange(REFERENCE_DAYS), np.arange(REFERENCE_DAYS, REFERENCE_DAYS + DAYS)
    inputs = [build_column(simulated, place, then, now) for place in range(COLUMNS)]
    history = compute_windows(simulated)
    return {
        "all measures of 25 columns, a window of 365 days": [
            _time(lambda: columns.summarize_window("", 1, inputs)) for _ in range(3)
        ],
        "a decision from 359 windows": [_time(lambda: list(decide_each(history, policy))) for _ in range(3)],
    }


def _time(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
