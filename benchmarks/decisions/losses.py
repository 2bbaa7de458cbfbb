"""Count how often the step `drift` finds a loss of performance where there is none, and how often a true loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.decisions.scored_days import (
    BIN_SCORES,
    HOLDOUT_DAYS,
    NO_DRIFT,
    ROWS,
    Array,
    Drift,
    simulate_day_effects,
    simulate_outcomes,
)
from pipelines.monitoring.drift import performance
from pipelines.monitoring.drift.finding import Finding, Measure

WINDOWS = 800
"""Windows that are simulated for each length and correlation without a loss. With a loss, a quarter as many are."""
LENGTHS, CORRELATIONS = (7, 14, 28), (0.0, 0.5, 0.7)
"""Lengths of a window in days, and correlations of the effects of consecutive days."""
LEVELS = (0.05, 0.0027)
"""Levels of significance."""
LOSSES = {
    "AUC falls by 0.03, labels show it": Drift(slope=-0.16),
    "AUC falls by 0.06, labels show it": Drift(slope=-0.31),
    "AUC falls by 0.06, scores show it": Drift(spread=0.68),
}
"""Name of each loss, and the drift in the window that causes it. The estimates without labels find only a loss
that the scores show."""


def simulate_loss_p_values(
    windows: int,
    window_days: int,
    correlation: float,
    drift: Drift = NO_DRIFT,
    shuffle: bool = False,
    seed: int = 1,
) -> dict[Measure, Array]:
    """Simulate holdouts, each with the window after it, and compute the p-value of each metric.

    Args:
        windows: number of windows.
        window_days: length of a window, days.
        correlation: correlation of the effects of consecutive days.
        drift: what differs in the window.
        shuffle: whether the days of each sample are put in random order, which removes the
            correlation of consecutive days.
        seed: seed of the generator.

    Returns:
        Maps each metric to its p-values, one for each window.
    """
    random = np.random.default_rng([seed, windows, window_days, round(100 * correlation)])
    findings = [
        finding
        for _ in range(windows)
        for finding in _simulate_losses(random, window_days, correlation, drift, shuffle)
    ]
    measures = {finding.measure for finding in findings}
    return {
        measure: np.array([finding.p_value for finding in findings if finding.measure == measure])
        for measure in measures
    }


def _simulate_losses(
    random: np.random.Generator, window_days: int, correlation: float, drift: Drift, shuffle: bool
) -> tuple[Finding, ...]:
    """Simulate a holdout and the window after it, and compare their performance."""
    days = HOLDOUT_DAYS + window_days
    is_drift_day = (np.arange(days) >= HOLDOUT_DAYS).astype(float)
    day_effects = simulate_day_effects(random, (days, 3), correlation)
    counts = simulate_outcomes(random, np.full(days, ROWS), day_effects, drift, is_drift_day)
    holdout, window = counts[:HOLDOUT_DAYS], counts[HOLDOUT_DAYS:]
    if shuffle:
        holdout, window = random.permutation(holdout), random.permutation(window)
    probabilities = performance.calibrate_scores(holdout.sum(axis=0), BIN_SCORES)
    window_performance, holdout_performance = (
        performance.measure_performance(sample, BIN_SCORES, alpha=0.05)
        | performance.estimate_performance(sample.sum(axis=-1), probabilities, alpha=0.05)
        for sample in (window, holdout)
    )
    return performance.compare_metrics(window_performance, holdout_performance)


def run() -> dict[str, Any]:
    """Return the share of windows with p-values not above each level, without a loss and with one, as facts."""
    facts: dict[str, str] = {
        "simulated windows of each line without a loss, and with one": f"{WINDOWS}, {WINDOWS // 4}"
    }
    for correlation in CORRELATIONS:
        for length in LENGTHS:
            condition = f"{length} days, days correlated by {correlation}"
            p_values = simulate_loss_p_values(WINDOWS, length, correlation)
            facts |= {
                f"no loss, {condition}, {name}": _describe_shares(values) for name, values in sorted(p_values.items())
            }
            for loss, drift in LOSSES.items():
                loss_p_values = simulate_loss_p_values(WINDOWS // 4, length, correlation, drift)
                # Without labels, only a loss that the scores show can be found.
                name: Measure = "estimated_auc" if drift.spread != 1 else "auc"
                facts[f"{loss}, {condition}, {name}"] = _describe_shares(loss_p_values[name])
    return {"facts": facts, "seconds": {}}


def _describe_shares(p_values: Array) -> str:
    """Describe the share of p-values up to each level with its standard error: "5.00 +- 0.77 % up to 0.05, ..."."""
    shares = [float((p_values <= level).mean()) for level in LEVELS]
    # A share of 0 would have a standard error of 0. So the level replaces a share that is below it.
    standard_errors = [
        np.sqrt(max(share, level) * (1 - share) / len(p_values)) for share, level in zip(shares, LEVELS, strict=True)
    ]
    return ", ".join(
        f"{100 * share:.2f} +- {100 * error:.2f} % up to {level}"
        for share, error, level in zip(shares, standard_errors, LEVELS, strict=True)
    )
