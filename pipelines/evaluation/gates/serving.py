"""Check the packaged model: that it loads, that its scores equal those of the training, its size and its speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.classes import read_scores
from pipelines.errors import DataError
from pipelines.evaluation.gates.checks import check_value, report_value
from pipelines.evaluation.gates.policy import Serving
from pipelines.evaluation.gates.verdict import FAILED, PASSED, UNDECIDED, Check
from pipelines.score_columns import SCORE, name_score_columns

Scorer = Callable[[pd.DataFrame], Any]
"""Takes feature rows, returns their scores; shape (rows,), or a frame with a column for each class or quantile."""
SINGLE_CALLS, BATCH_CALLS, WARMUP_CALLS = 200, 30, 3
"""Number of timed calls with one row and with a batch, and of calls before the timing."""
MAX_TIMING_S = 3.0
"""Seconds after which no further call is timed. For a slow model, fewer calls are enough."""


@dataclass(frozen=True)
class PackageMeasurements:
    """Measurements of a packaged model."""

    skew: float | None
    """Largest absolute difference between a score of the package and the training process's score of the same row; None
    if the training stored no scores."""
    mb: float
    """Size of the files, MB."""
    single_ms: tuple[float, float]
    """p50 and p99 of the time for one row, milliseconds."""
    batch_ms: tuple[float, float]
    """p50 and p99 of the time for a batch, milliseconds."""
    load_problem: str = ""
    """Why the package cannot be loaded without the project's code; empty if it can be."""


def measure_package(
    score: Scorer, rows: pd.DataFrame, training_scores: pd.DataFrame | None, folder: Path, batch_rows: int
) -> PackageMeasurements:
    """Call the model as a server would, one call after the other, and add up the size of its files.

    Args:
        score: function that scores rows with the packaged model.
        rows: feature rows to score, one or more.
        training_scores: feature rows with the columns of scores of the training process; None if there are none.
        folder: folder of the model's files.
        batch_rows: rows of a batch; if there are fewer rows, they are repeated.

    Raises:
        DataError: `training_scores` lacks a column of scores, or the model does not give one score for each row. A
            retry cannot help.
    """
    batch = rows.iloc[np.resize(np.arange(len(rows)), batch_rows)]
    return PackageMeasurements(
        skew=None if training_scores is None else _compute_skew(score, training_scores),
        mb=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        single_ms=_time_calls(score, [rows.iloc[[number % len(rows)]] for number in range(SINGLE_CALLS)]),
        batch_ms=_time_calls(score, [batch] * BATCH_CALLS),
    )


def check_package(package: PackageMeasurements, policy: Serving) -> list[Check]:
    """Compare each measurement with its bound in the policy; if there is no bound, only report the measurement.

    If the training stored no scores, the check of the scores is undecided.
    """
    (single_p50, single_p99), (batch_p50, batch_p99) = package.single_ms, package.batch_ms
    batch_name = f"time for {policy.batch_rows} rows, p99, ms"
    return [
        _check_load(package.load_problem),
        _check_skew(package.skew, policy.max_skew),
        _check_maximum("size of the model, MB", package.mb, policy.max_mb),
        _check_time("time for one row, p99, ms", single_p99, policy.max_single_ms, single_p50),
        _check_time(batch_name, batch_p99, policy.max_batch_ms, batch_p50),
    ]


def _check_load(problem: str) -> Check:
    name = "the packaged model can be loaded where the project's code is not"
    reason = f"the packaged model cannot be loaded where the project's code is not: {problem}" if problem else name
    return Check(name=name, value=None, bound=None, outcome=FAILED if problem else PASSED, reason=reason)


def _check_skew(skew: float | None, bound: float) -> Check:
    name = "difference between the scores of the packaged model and of the training"
    if skew is None:
        reason = "the training stored no scores to compare with those of the package: its script has to write them"
        return Check(name=name, value=None, bound=bound, outcome=UNDECIDED, reason=reason)
    return check_value(name, skew, at_most=bound)


def _check_maximum(name: str, value: float, bound: float | None) -> Check:
    if bound is None:
        return report_value(name, f"{name} is {value:.4g}", value)
    return check_value(name, value, at_most=bound)


def _check_time(name: str, p99_ms: float, bound: float | None, p50_ms: float) -> Check:
    """Compare the p99 with the bound. The reason also has the p50, which shows whether only few calls are slow."""
    check = _check_maximum(name, p99_ms, bound)
    return check.model_copy(update={"reason": f"{check.reason}; p50 {p50_ms:.4g}", "timed": True})


def _compute_skew(score: Scorer, training_scores: pd.DataFrame) -> float | None:
    """Compute the largest absolute difference of the model's scores from those of the training; None without rows.

    Raises:
        DataError: a column of scores is missing, or the model does not give one score for each row. A retry cannot
            help.
    """
    if training_scores.empty:
        return None
    scores = score(training_scores.drop(columns=SCORE, errors="ignore"))
    classes = [str(name) for name in scores] if isinstance(scores, pd.DataFrame) else []
    for name in name_score_columns(classes):
        if name not in training_scores:
            message = f"the file of the training's scores has no column {name}."
            raise DataError(message, "The training script has to write it.")
    expected_scores, values = read_scores(training_scores, classes), np.asarray(scores, dtype=float)
    if values.shape != expected_scores.shape:
        raise DataError(
            f"the packaged model gives scores of shape {values.shape} for {len(expected_scores)} rows.",
            "It has to give one score for each row.",
        )
    return float(np.abs(values - expected_scores).max())


def _time_calls(score: Scorer, calls: list[pd.DataFrame]) -> tuple[float, float]:
    """Return p50 and p99 of the calls' wall-clock times, milliseconds."""
    for rows in calls[:WARMUP_CALLS]:
        score(rows)
    times_ms: list[float] = []
    for rows in calls:
        if sum(times_ms) > 1_000 * MAX_TIMING_S:
            break
        start = time.perf_counter()
        score(rows)
        times_ms.append(1_000 * (time.perf_counter() - start))
    p50, p99 = np.percentile(times_ms, [50, 99])
    return float(p50), float(p99)
