"""Count false alarms, and the days until drift raises an alarm. The simulation includes profiles, findings and policy.

Each year has the profiles of 60 training days, of a holdout of 28 days, and of 365 days after it. Windows have 14 days,
and labels are known a day later, as in params.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from benchmarks.decisions import losses
from benchmarks.decisions.drift import count_alarms, count_runs
from benchmarks.decisions.scored_days import HOLDOUT_DAYS, NO_DRIFT, TRAINING_DAYS, Drift, build_record, simulate_days
from pipelines.monitoring.drift import Policy, WindowResult, decide_each
from pipelines.monitoring.drift.alarms import find_breaches
from pipelines.monitoring.drift.finding import BoundedMeasure
from pipelines.monitoring.windows import compare_windows

DAYS, WINDOW_DAYS, LABEL_DELAY_DAYS = 365, 14, 1
YEARS = 3
"""Years that are simulated for each correlation of days."""
DRIFT_PERIODS = 3
"""Periods of `DRIFT_START + DRIFT_DAYS` days that are simulated for each kind of drift."""
DRIFT_CORRELATION = 0.5
"""Correlation of the effects of consecutive days in these periods."""
DRIFT_START, DRIFT_DAYS = 40, 45
"""Number of days between the holdout and the first day with drift, and number of days with drift."""
SHIPPED_POLICY = Policy(false_alarms_per_year=1)
"""The policy of params.yaml."""
ALL_BOUNDS: dict[BoundedMeasure, float] = {
    **SHIPPED_POLICY.bounds,
    "js": 0.1,
    "ks": 0.1,
    "chi_square": 0.1,
    "brier": 0.01,
    "log_loss": 0.03,
    "ece": 0.03,
}
ALL_POLICY = Policy(false_alarms_per_year=1, bounds=ALL_BOUNDS)
"""A policy by which every measure with a p-value decides."""
SIGNIFICANCE_POLICY = Policy(false_alarms_per_year=1, bounds=dict.fromkeys(get_args(BoundedMeasure), 1e-9))
"""A policy whose bounds are near 0, so that p-values alone decide."""
DRIFTS = {
    "the first feature moves by 0.7 standard deviations": Drift(feature=0.7),
    "the rate of labels rises by 0.1": Drift(rate=0.6),  # a shift of the logit
    **losses.LOSSES,
}


@dataclass(frozen=True)
class Counts:
    """Numbers of alarms and of significant windows in a year without drift."""

    shipped: int
    """Alarms of the shipped policy."""
    all_measures: int
    """Alarms of `ALL_POLICY`, by which every measure with a p-value decides."""
    significant: int
    """Windows with a significant finding of any effect size."""
    runs: int
    """Series of consecutive windows with a significant finding."""


def simulate_windows(
    seed: Sequence[int], days: int, correlation: float, drift: Drift = NO_DRIFT, drift_start: int = 0
) -> list[WindowResult]:
    """Simulate days after the holdout, and compare all their windows.

    Args:
        seed: seed of the generator.
        days: number of days after the holdout.
        correlation: correlation of the effects of consecutive days.
        drift: what changes.
        drift_start: number of days after the holdout at which the drift begins.
    """
    first_day = TRAINING_DAYS + HOLDOUT_DAYS
    generator = np.random.default_rng(seed)
    scored_days = simulate_days(generator, first_day + days, correlation, drift, first_day + drift_start)
    record = build_record(scored_days)
    profiles = dict(list(scored_days.profiles.items())[first_day:])
    windows = compare_windows(record, profiles, WINDOW_DAYS, {}, SHIPPED_POLICY, LABEL_DELAY_DAYS)
    return [window.result for window in windows]


def count_false_alarms(windows: Sequence[WindowResult]) -> Counts:
    """Count the alarms and the significant findings of windows without drift."""
    is_significant = [bool(find_breaches(window, SIGNIFICANCE_POLICY)) for window in windows]
    return Counts(
        count_alarms(decide_each(windows, SHIPPED_POLICY)),
        count_alarms(decide_each(windows, ALL_POLICY)),
        sum(is_significant),
        count_runs(is_significant),
    )


def measure_delay(seed: Sequence[int], correlation: float, drift: Drift) -> int | None:
    """Return the days from the beginning of a drift to its alarm by the shipped policy; None without an alarm."""
    windows = simulate_windows(seed, DRIFT_START + DRIFT_DAYS, correlation, drift, DRIFT_START)
    first_window = DRIFT_START - WINDOW_DAYS + 1  # index of the first window that contains a day with drift
    alarms = [n for n, decision in enumerate(decide_each(windows, SHIPPED_POLICY)) if decision.is_drift]
    return next((n - first_window + 1 for n in alarms if n >= first_window), None)


def run() -> dict[str, Any]:
    """Simulate years and drifts; return the false alarms a year and the days to the alarm, as facts."""
    facts: dict[str, str] = {}
    for correlation in losses.CORRELATIONS:
        years = [
            count_false_alarms(simulate_windows([1, n, round(100 * correlation)], DAYS, correlation))
            for n in range(YEARS)
        ]
        condition = f"days correlated by {correlation}"
        facts |= {
            f"{name} a year, {condition}": _describe_counts(values)
            for name, values in {
                "false alarms of the shipped policy": [year.shipped for year in years],
                "false alarms where every measure decides": [year.all_measures for year in years],
                f"windows (of {DAYS - WINDOW_DAYS + 1}) with a significant finding": [
                    year.significant for year in years
                ],
                "runs of such windows": [year.runs for year in years],
            }.items()
        }
    for name, drift in DRIFTS.items():
        delays = [measure_delay([2, n], DRIFT_CORRELATION, drift) for n in range(DRIFT_PERIODS)]
        facts[f"days to the alarm, {name}, days correlated by {DRIFT_CORRELATION}"] = _describe_delays(delays)
    return {"facts": facts, "seconds": {}}


def _describe_counts(counts: Sequence[int]) -> str:
    """Describe the mean count of a year with its standard error, or, if all counts are 0, its upper bound at 95 %."""
    mean, error = float(np.mean(counts)), float(np.std(counts, ddof=1) / np.sqrt(len(counts)))
    return (
        f"{mean:.2f} +- {error:.2f}, {YEARS} years" if mean else f"0 in {YEARS} years (below {3 / YEARS:.2f} at 95 %)"
    )


def _describe_delays(delays: Sequence[int | None]) -> str:
    known_delays = [delay for delay in delays if delay is not None]
    summary = f"found in {len(known_delays)} of {len(delays)} within {DRIFT_DAYS} days"
    if not known_delays:
        return summary
    return f"{summary}, median {np.median(known_delays):.0f} ({min(known_delays)} to {max(known_delays)})"
