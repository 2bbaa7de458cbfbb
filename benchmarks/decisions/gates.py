"""Measure the paired bootstrap of the gates, 5,000 draws of rows for AUC and log loss, and compare with scipy.

Each call runs in its own process. Seconds are those of the call; memory is the growth of the peak memory. At larger
sizes scipy makes only a few draws. Its seconds for all draws are then extrapolated ("scaled"), not measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.sources import read_peak_mb
from pipelines.evaluation.statistics import bootstrap

PROJECT = Path(__file__).parents[2]
DRAWS = 5_000
RUNS = 3
SCIPY_DRAWS = {10_000: DRAWS, 100_000: 200, 1_000_000: 20}
"""Number of draws that scipy makes, by the number of rows."""
SCIPY_BATCH_VALUES = 10_000_000
"""Largest number of values in a batch of scipy. By default, all draws are one batch: an array of 400 MB at 10,000 rows.
"""
METRICS = ("auc", "log_loss")


def run() -> dict[str, Any]:
    """Measure Leeway and scipy at each size. Return their seconds; as facts, memory, intervals and scaled seconds."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    for rows, scipy_draws in SCIPY_DRAWS.items():
        for metric in METRICS:
            for implementation, draws, runs in (("Leeway", DRAWS, RUNS), ("scipy", scipy_draws, 1)):
                results = [_run_child(implementation, metric, rows, draws) for _ in range(runs)]
                row = f"{rows:,} rows, {metric}, {implementation}, {draws:,} draws"
                seconds[row] = [result["seconds"] for result in results]
                facts[f"{row}: memory"] = (
                    f"{max(result['growth_mb'] for result in results):.0f} MB beyond imports and input"
                )
                facts[f"{row}: interval"] = "{:.6f} to {:.6f}".format(*results[0]["interval"])
                if draws < DRAWS:
                    scaled_seconds = statistics.median(seconds[row]) * DRAWS / draws
                    facts[f"{row}: scaled to {DRAWS:,}"] = f"{scaled_seconds:,.0f} s"
    return {"facts": facts, "seconds": seconds}


def _run_child(implementation: str, metric: str, rows: int, draws: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.decisions.gates", implementation, metric, str(rows), str(draws)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(
            f"error: {implementation} of {metric} ended with exit code {process.returncode}: {process.stderr[-2_000:]}"
        )
    result: dict[str, Any] = json.loads(process.stdout)
    return result


Array = np.ndarray[Any, Any]


def _build_holdout(rows: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(1)
    label = random.random(rows) < 0.25
    shared_logit = -1.1 + random.normal(label, 1, rows)
    candidate, champion = (1 / (1 + np.exp(-shared_logit - random.normal(0, noise, rows))) for noise in (0.5, 0.6))
    return label, candidate, champion


def _bootstrap_with_pipelines(metric: str, holdout: tuple[Array, Array, Array], draws: int) -> tuple[float, float]:
    interval = bootstrap.estimate_difference(*holdout, metric, alpha=0.05, seed=1, draws=draws)
    return interval.low, interval.high


def _bootstrap_with_scipy(metric: str, holdout: tuple[Array, Array, Array], draws: int) -> tuple[float, float]:
    label, candidate, champion = holdout
    positives, negatives = np.flatnonzero(label), np.flatnonzero(~label)
    compute = {"auc": _compute_auc, "log_loss": _compute_log_loss}[metric]

    def compute_difference(drawn_positives: Array, drawn_negatives: Array, axis: int) -> Array:
        values = [
            compute(score[positives[drawn_positives]], score[negatives[drawn_negatives]])
            for score in (candidate, champion)
        ]
        return np.asarray(values[0] - values[1])

    result = stats.bootstrap(
        (np.arange(len(positives)), np.arange(len(negatives))),
        compute_difference,
        n_resamples=draws,
        batch=max(1, SCIPY_BATCH_VALUES // len(label)),
        confidence_level=0.9,  # the gate's alpha of 0.05 is the error probability of each end of the interval
        method="percentile",
        rng=1,
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _compute_auc(positives: Array, negatives: Array) -> Array:
    count = positives.shape[-1]
    ranks = stats.rankdata(np.concatenate([positives, negatives], axis=-1), axis=-1)[..., :count]
    return np.asarray((ranks.sum(axis=-1) - count * (count + 1) / 2) / (count * negatives.shape[-1]))


def _compute_log_loss(positives: Array, negatives: Array) -> Array:
    loss = np.log(positives).sum(axis=-1) + np.log1p(-negatives).sum(axis=-1)
    return np.asarray(-loss / (positives.shape[-1] + negatives.shape[-1]))


def _measure(implementation: str, metric: str, rows: int, draws: int) -> dict[str, Any]:
    holdout, start_mb = _build_holdout(rows), read_peak_mb()
    start_s = time.perf_counter()
    interval = {"Leeway": _bootstrap_with_pipelines, "scipy": _bootstrap_with_scipy}[implementation](
        metric, holdout, draws
    )
    return {"seconds": time.perf_counter() - start_s, "growth_mb": read_peak_mb() - start_mb, "interval": interval}


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
