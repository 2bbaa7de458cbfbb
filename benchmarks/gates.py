"""The paired bootstrap under the gates, 5,000 draws of AUC and log loss by rows, beside a plain scipy.stats.bootstrap.

Each in a process of its own: seconds of the call, and how much the most memory grew by it. scipy's larger sizes are a
few draws, and their seconds scaled: a fact, not a measurement.
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

from benchmarks.sources import peak_mb
from pipelines.evaluation.statistics import bootstrap

PROJECT = Path(__file__).parents[1]
DRAWS = 5_000
RUNS = 3
SCIPY_DRAWS = {10_000: DRAWS, 100_000: 200, 1_000_000: 20}
SCIPY_CELLS = 10_000_000
"""scipy is given a batch too: by default it makes all draws at once, 400 MB of each array at 10,000 rows."""
METRICS = ("auc", "log_loss")


def run() -> dict[str, Any]:
    """Seconds by rows, metric and who; facts: memory, scipy's seconds for all draws, and both intervals."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    for rows, few in SCIPY_DRAWS.items():
        for metric in METRICS:
            for who, draws, runs in (("ours", DRAWS, RUNS), ("scipy", few, 1)):
                told = [_child(who, metric, rows, draws) for _ in range(runs)]
                row = f"{rows:,} rows, {metric}, {who}, {draws:,} draws"
                seconds[row] = [one["seconds"] for one in told]
                facts[f"{row}: memory"] = f"{max(one['grown_mb'] for one in told):.0f} MB beyond imports and input"
                facts[f"{row}: interval"] = "{:.6f} to {:.6f}".format(*told[0]["interval"])
                if draws < DRAWS:
                    scaled = statistics.median(seconds[row]) * DRAWS / draws
                    facts[f"{row}: scaled to {DRAWS:,}"] = f"{scaled:,.0f} s"
    return {"facts": facts, "seconds": seconds}


def _child(who: str, metric: str, rows: int, draws: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gates", who, metric, str(rows), str(draws)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {who} of {metric} ended with {done.returncode}: {done.stderr[-2_000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


Array = np.ndarray[Any, Any]


def _holdout(rows: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(1)
    label = random.random(rows) < 0.25
    shared = -1.1 + random.normal(label, 1, rows)
    one, other = (1 / (1 + np.exp(-shared - random.normal(0, noise, rows))) for noise in (0.5, 0.6))
    return label, one, other


def _ours(metric: str, holdout: tuple[Array, Array, Array], draws: int) -> tuple[float, float]:
    told = bootstrap.paired(*holdout, metric, alpha=0.05, seed=1, draws=draws)
    return told.low, told.high


def _scipy(metric: str, holdout: tuple[Array, Array, Array], draws: int) -> tuple[float, float]:
    label, one, other = holdout
    ones, zeros = np.flatnonzero(label), np.flatnonzero(~label)
    of = {"auc": _auc, "log_loss": _log_loss}[metric]

    def difference(drawn: Array, drawn_zeros: Array, axis: int) -> Array:
        of_both = [of(score[ones[drawn]], score[zeros[drawn_zeros]]) for score in (one, other)]
        return np.asarray(of_both[0] - of_both[1])

    told = stats.bootstrap(
        (np.arange(len(ones)), np.arange(len(zeros))),
        difference,
        n_resamples=draws,
        batch=max(1, SCIPY_CELLS // len(label)),
        confidence_level=0.9,
        method="percentile",
        rng=1,
    )
    return float(told.confidence_interval.low), float(told.confidence_interval.high)


def _auc(ones: Array, zeros: Array) -> Array:
    number = ones.shape[-1]
    ranks = stats.rankdata(np.concatenate([ones, zeros], axis=-1), axis=-1)[..., :number]
    return np.asarray((ranks.sum(axis=-1) - number * (number + 1) / 2) / (number * zeros.shape[-1]))


def _log_loss(ones: Array, zeros: Array) -> Array:
    loss = np.log(ones).sum(axis=-1) + np.log1p(-zeros).sum(axis=-1)
    return np.asarray(-loss / (ones.shape[-1] + zeros.shape[-1]))


def _main(who: str, metric: str, rows: int, draws: int) -> dict[str, Any]:
    holdout, before = _holdout(rows), peak_mb()
    began = time.perf_counter()
    interval = {"ours": _ours, "scipy": _scipy}[who](metric, holdout, draws)
    return {"seconds": time.perf_counter() - began, "grown_mb": peak_mb() - before, "interval": interval}


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
