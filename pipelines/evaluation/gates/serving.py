"""Checks of the packaged model: does it say what the training process said, how large and how quick is it?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.errors import DataError
from pipelines.evaluation.gates.checks import exact, reported
from pipelines.evaluation.gates.policy import Serving
from pipelines.evaluation.gates.verdict import Check

Score = Callable[[pd.DataFrame], Any]
SINGLE_CALLS, BATCH_CALLS, WARM = 200, 30, 3
ENOUGH_S = 3.0
"""After that long no further call is measured: a slow model shows within fewer."""


@dataclass(frozen=True)
class Measured:
    """A packaged model."""

    skew: float | None
    """Largest difference of a score from the training process's; None where that kept none."""
    mb: float
    """Size of its files, MB."""
    single_ms: tuple[float, float]
    """p50 and p99 of one row, milliseconds."""
    batch_ms: tuple[float, float]
    """The same of a batch."""


def measure(score: Score, rows: pd.DataFrame, trained: pd.DataFrame | None, folder: Path, batch: int) -> Measured:
    """Calls the model as a server would, one call after the other, and looks at its files.

    Args:
        score: the packaged model.
        rows: feature rows to score, any number above 0.
        trained: feature rows with the column `score` that the training process gave them; None where it kept none.
        folder: the model's files.
        batch: rows of a batch; where there are fewer rows they are repeated.
    """
    many = rows.iloc[np.resize(np.arange(len(rows)), batch)]
    return Measured(
        skew=None if trained is None else _skew(score, trained),
        mb=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        single_ms=_times(score, [rows.iloc[[n % len(rows)]] for n in range(SINGLE_CALLS)]),
        batch_ms=_times(score, [many] * BATCH_CALLS),
    )


def checks(told: Measured, policy: Serving) -> list[Check]:
    """Each measure, held against the policy where that has a bound."""
    (single, single_99), (batch, batch_99) = told.single_ms, told.batch_ms
    many = f"{policy.batch_rows} rows"
    return [
        _skew_check(told.skew, policy.max_skew),
        _within("size of the model, MB", told.mb, policy.max_mb),
        _timed("time for one row, p99, ms", single_99, policy.max_single_ms, f"p50 {single:.2f}"),
        _timed(f"time for {many}, p99, ms", batch_99, policy.max_batch_ms, f"p50 {batch:.2f}"),
    ]


def _skew_check(skew: float | None, bound: float) -> Check:
    name = "difference of the packaged model's scores from the training's"
    if skew is None:
        return reported(name, "the training kept no scores to compare with")
    return exact(name, skew, at_most=bound)


def _within(name: str, value: float, bound: float | None, more: str = "") -> Check:
    if bound is None:
        return reported(name, ", ".join(filter(None, [f"{name} is {value:.4g}", more])), value)
    return exact(name, value, at_most=bound)


def _timed(name: str, value: float, bound: float | None, more: str) -> Check:
    return _within(name, value, bound, more).model_copy(update={"timed": True})


def _skew(score: Score, trained: pd.DataFrame) -> float:
    if "score" not in trained:
        raise DataError("the training's scores have no column score.", "The training script writes it.")
    told = np.asarray(score(trained.drop(columns="score")), dtype=float)
    return float(np.abs(told - trained["score"].to_numpy(dtype=float)).max(initial=0.0))


def _times(score: Score, calls: list[pd.DataFrame]) -> tuple[float, float]:
    for rows in calls[:WARM]:
        score(rows)
    taken: list[float] = []
    for rows in calls:
        if sum(taken) > 1_000 * ENOUGH_S:
            break
        began = time.perf_counter()
        score(rows)
        taken.append(1_000 * (time.perf_counter() - began))
    p50, p99 = np.percentile(taken, [50, 99])
    return float(p50), float(p99)
