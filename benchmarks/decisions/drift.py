"""Simulate years with and without drift: count false alarms, and measure the days until a drift is detected.

The rows of a day are correlated, because each day shifts the values of each column. Weekdays differ. There are 25
columns, each with 10 bins and missing values. A window is the last seven days; the reference is the eight weeks before
the year.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy import special

from pipelines.monitoring.drift import Decision, Finding, Policy, WindowResult, columns, decide_each, distances
from pipelines.monitoring.drift.alarms import find_breaches
from pipelines.monitoring.drift.counts import ComparedColumn, Counts
from pipelines.monitoring.drift.dispersion import Sample, estimate_null_distribution

Array = np.ndarray[Any, Any]
COLUMNS, BINS, DAYS, REFERENCE_DAYS, WINDOW_DAYS = 25, 10, 365, 56, 7
ROWS = 900
"""Mean rows of two days of each week, about as many as the flights have a day. The other five days have 20 % more."""
DAY_DEVIATION, WEEKDAY_DEVIATION = 0.10, 0.15
"""Standard deviations of the shifts of a day and of a weekday, in standard deviations of the column."""
YEARS = 24
"""Years that are simulated for each case without drift. Half as many are simulated for each kind of drift."""
DRIFT_START = 100
"""Day of the year on which the drift begins, from 0."""
AddDrift = Callable[[Array, Array], Array]
"""A function that adds drift to the shifts of columns.

It takes the shifts, shape (days, columns), and for each day the number of days since `DRIFT_START`. It returns the
shifts with the drift.
"""


def shift_suddenly(shifts: Array, days_since: Array) -> Array:
    """Shift a fifth of the columns by 0.5 standard deviations at once."""
    shifts[days_since >= 0, : COLUMNS // 5] += 0.5
    return shifts


def shift_gradually(shifts: Array, days_since: Array) -> Array:
    """Shift a fifth of the columns by 1 standard deviation, gradually over 60 days."""
    shifts[:, : COLUMNS // 5] += np.clip(days_since / 60, 0, 1)[:, np.newaxis]
    return shifts


def shift_one_feature(shifts: Array, days_since: Array) -> Array:
    """Shift one column by 0.7 standard deviations."""
    shifts[days_since >= 0, 3] += 0.7
    return shifts


def saturate_one_feature(shifts: Array, days_since: Array) -> Array:
    """Set one column to its highest bin in all rows."""
    shifts[days_since >= 0, 7] = np.inf
    return shifts


DRIFTS: dict[str, AddDrift] = {
    "sudden": shift_suddenly,
    "gradual": shift_gradually,
    "one feature": shift_one_feature,
    "stuck sensor": saturate_one_feature,
}


@dataclass(frozen=True)
class Year:
    """Counts of rows for each day: first the days of the reference, then the days of the year after it."""

    bins: Array
    """Rows in each bin; shape (columns, days, bins)."""
    presence: Array
    """Rows with a value, and without; shape (columns, days, 2)."""


def simulate_year(
    random: np.random.Generator,
    add_drift: AddDrift | None = None,
    autocorrelation: float = 0.0,
    day_deviation: float = DAY_DEVIATION,
) -> Year:
    """Simulate the counts of a year, and of the reference before it.

    Args:
        random: the generator.
        add_drift: the function that adds the drift; None for a year without drift.
        autocorrelation: correlation of the shifts of consecutive days, 0 to 1; 0 makes days independent.
        day_deviation: standard deviation of the daily shifts, in standard deviations of a column.
    """
    days = REFERENCE_DAYS + DAYS
    common_shifts, column_shifts = (
        _simulate_shifts(random, (days, 1), autocorrelation),
        _simulate_shifts(random, (days, COLUMNS), autocorrelation),
    )
    weekday_shifts = random.normal(0, WEEKDAY_DEVIATION, (7, COLUMNS))
    # The standard deviation of the sum in brackets is 1, because 0.6**2 + 0.8**2 is 1.
    shifts = day_deviation * (0.6 * common_shifts + 0.8 * column_shifts) + weekday_shifts[np.arange(days) % 7]
    if add_drift:
        shifts = add_drift(shifts, np.arange(days) - REFERENCE_DAYS - DRIFT_START)
    rows = random.poisson(ROWS * (1 + 0.2 * (np.arange(days) % 7 < 5)))[:, np.newaxis]
    missing_counts = random.binomial(rows, special.expit(-4 + 0.3 * random.normal(size=(days, COLUMNS))))
    edges = special.ndtri(np.arange(1, BINS) / BINS)
    cumulative_shares = special.ndtr(edges - shifts[..., np.newaxis])
    probabilities = np.maximum(np.diff(cumulative_shares, axis=-1, prepend=0.0, append=1.0), 0.0)
    counts = random.multinomial(rows - missing_counts, probabilities)
    presence = np.stack([rows - missing_counts, missing_counts], axis=-1)
    return Year(counts.transpose(1, 0, 2).astype(float), presence.transpose(1, 0, 2).astype(float))


def compute_windows(year: Year, by_day: bool = True) -> list[WindowResult]:
    """Compute the results of all windows of a year, as `columns.summarize_window` does, but for all columns at once.

    Args:
        year: the simulated year.
        by_day: whether results are corrected for within-day correlation. If not, rows count as independent.
    """
    references = [_build_sample(counts, np.arange(REFERENCE_DAYS), by_day) for counts in (year.bins, year.presence)]
    return [
        _compute_window(year, references, last_index, by_day)
        for last_index in range(REFERENCE_DAYS + WINDOW_DAYS - 1, REFERENCE_DAYS + DAYS)
    ]


def count_runs(flags: Sequence[bool]) -> int:
    """Return the number of runs of consecutive True values."""
    return sum(flag and not previous_flag for previous_flag, flag in zip([False, *flags], flags, strict=False))


def count_alarms(decisions: Iterable[Decision]) -> int:
    """Return the number of alarms: runs of consecutive decisions for drift."""
    return count_runs([decision.is_drift for decision in decisions])


def flag_significant_windows(windows: Sequence[WindowResult]) -> list[bool]:
    """Return for each window whether it has a significant finding, by p-values alone, whatever the effect size."""
    policy = Policy(bounds={"psi": 1e-6, "missing": 1e-6})
    return [bool(find_breaches(window, policy)) for window in windows]


def measure_delay(decisions: Sequence[Decision]) -> int | None:
    """Return the days from the beginning of the drift to the first decision for drift; None without such a decision."""
    first_index = DRIFT_START - WINDOW_DAYS + 1  # index of the first window that contains a day with drift
    return next(
        (
            index - first_index + 1
            for index, decision in enumerate(decisions)
            if index >= first_index and decision.is_drift
        ),
        None,
    )


def _simulate_shifts(random: np.random.Generator, shape: tuple[int, int], autocorrelation: float) -> Array:
    noise = random.normal(size=shape)
    for index in range(1, len(noise)):
        noise[index] = autocorrelation * noise[index - 1] + np.sqrt(1 - autocorrelation**2) * noise[index]
    return noise


def _build_sample(counts: Array, days: Array, by_day: bool) -> Sample:
    if by_day:
        return Sample.from_counts(counts[:, days], days % 7)
    return Sample.from_counts(counts[:, days].sum(axis=1, keepdims=True), np.zeros(1))


def _compute_window(year: Year, references: Sequence[Sample], last_index: int, by_day: bool) -> WindowResult:
    days = np.arange(last_index - WINDOW_DAYS + 1, last_index + 1)
    findings: list[Finding] = []
    for reference, counts, measure in zip(references, (year.bins, year.presence), ("psi", "missing"), strict=True):
        window = _build_sample(counts, days, by_day)
        totals = reference.total, window.total
        is_rate = measure == "missing"
        effects = _compare_rates(*totals) if is_rate else distances.compute_psi(*totals)
        statistic = (
            distances.compute_chi_square(*totals) if is_rate else effects * distances.compute_sample_factor(*totals)
        )
        p_values = estimate_null_distribution(reference, window).compute_chi_square_p_value(statistic)
        pairs = zip(effects.tolist(), p_values.tolist(), strict=True)
        findings += [Finding(f"x{index}", measure, *pair, 1 / COLUMNS) for index, pair in enumerate(pairs)]  # type: ignore[arg-type]
    return WindowResult(str(_get_date(last_index)), int(year.presence[0, days].sum()), tuple(findings))


def _compare_rates(reference: Array, window: Array) -> Array:
    return np.asarray(np.abs(distances.compute_shares(window)[:, 1] - distances.compute_shares(reference)[:, 1]))


def _get_date(index: int) -> date:
    return date(2024, 1, 1) + timedelta(days=index)


def build_column(year: Year, index: int, reference_days: Array, window_days: Array) -> ComparedColumn:
    """Return one column of the year in the form that `columns.examine_column` takes."""
    reference, window = (
        Counts(year.bins[index, days], year.presence[index, days, 1], days % 7)
        for days in (reference_days, window_days)
    )
    edges = special.ndtri(np.arange(1, BINS) / BINS)
    return ComparedColumn(f"x{index}", "numeric", reference, window, edges=edges, weight=1 / COLUMNS)


def run() -> dict[str, Any]:
    """Return the facts (false alarms per year, days to detection) and the seconds that the computations take."""
    policy = Policy()
    facts: dict[str, str] = {}
    for name, autocorrelation, day_deviation, by_day in (
        ("days independent", 0.0, DAY_DEVIATION, True),
        ("days correlated by 0.5 with the day before", 0.5, DAY_DEVIATION, True),
        ("rows treated as independent", 0.0, DAY_DEVIATION, False),
        ("daily shifts five times as large", 0.0, 5 * DAY_DEVIATION, True),
        ("daily shifts five times as large, rows treated as independent", 0.0, 5 * DAY_DEVIATION, False),
    ):
        facts |= {
            f"{fact_name} a year, {name}": text
            for fact_name, text in _count_false_alarms(autocorrelation, day_deviation, by_day).items()
        }
    for name, add_drift in DRIFTS.items():
        delays = [
            measure_delay(
                list(decide_each(compute_windows(simulate_year(np.random.default_rng([2, n]), add_drift)), policy))
            )
            for n in range(YEARS // 2)
        ]
        facts[f"days to detection, {name}"] = _describe_delays(delays)
    return {"facts": facts, "seconds": _measure_seconds(policy)}


def _count_false_alarms(autocorrelation: float, day_deviation: float, by_day: bool) -> dict[str, str]:
    """Count the alarms and the significant findings in years without drift."""
    years = [
        compute_windows(
            simulate_year(np.random.default_rng([1, n]), autocorrelation=autocorrelation, day_deviation=day_deviation),
            by_day,
        )
        for n in range(YEARS)
    ]
    counts = {
        "false alarms": sum(count_alarms(decide_each(windows, Policy())) for windows in years),
        "windows with a significant finding": sum(sum(flag_significant_windows(windows)) for windows in years),
        "runs of such windows": sum(count_runs(flag_significant_windows(windows)) for windows in years),
    }
    return {name: f"{number / YEARS:.2f} in {YEARS} years" for name, number in counts.items()}


def _describe_delays(delays: list[int | None]) -> str:
    detection_delays = [delay for delay in delays if delay is not None]
    missed_share = f", missed in {len(delays) - len(detection_delays)} of {len(delays)}"
    return (
        f"median {np.median(detection_delays):.0f}, {min(detection_delays)} to {max(detection_delays)}{missed_share}"
        if detection_delays
        else "never"
    )


def _measure_seconds(policy: Policy) -> dict[str, list[float]]:
    year = simulate_year(np.random.default_rng(3))
    reference_days, window_days = np.arange(REFERENCE_DAYS), np.arange(REFERENCE_DAYS, REFERENCE_DAYS + DAYS)
    inputs = [build_column(year, index, reference_days, window_days) for index in range(COLUMNS)]
    windows = compute_windows(year)
    return {
        "all measures of 25 columns, a window of 365 days": [
            _time(lambda: columns.summarize_window("", 1, inputs)) for _ in range(3)
        ],
        "a decision from 359 windows": [_time(lambda: list(decide_each(windows, policy))) for _ in range(3)],
    }


def _time(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s
