"""Count the false alarms of drift tests on simulated days: tests of performance that is estimated without labels.

A day has an effect that all its rows share: it changes the features or the probabilities of the classes. The effect is
correlated by 0.5 with that of the day before. The calibration of the classes, or the model of a regression's errors, is
fitted on a holdout of 28 days. A window of 14 days is then compared with the holdout. The recall of a class, which
needs labels, is simulated too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.decisions.simulation import draw_day_values, format_error, format_share
from pipelines.dataset import Dataset
from pipelines.monitoring import windows
from pipelines.monitoring.drift import Policy
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.class_scores import fit_classes
from pipelines.monitoring.profiles.counting import count_days
from pipelines.monitoring.profiles.losses import fit_losses
from pipelines.monitoring.profiles.record import ReferenceRecord
from pipelines.monitoring.profiles.reference import fit_reference
from pipelines.scored_rows import append_scores

SIMULATIONS = 300
HOLDOUT_DAYS, WINDOW_DAYS, ROWS = 28, 14, 200
"""Days of the holdout and of the window, and rows of each day."""
CORRELATION = 0.5
"""Correlation of a day's effect with that of the day before."""
LEVELS = (0.05, 0.0027)
"""Significance levels. The share of p-values up to a level should not be above the level."""
CLASSES = ["a", "b", "c"]
ORDERS = Dataset(name="orders", key=("id",), label="label", task="multiclass", features={"x": "number"})
MEASURES = (
    "estimated_mae",
    "estimated_rmse",
    "estimated_accuracy",
    "estimated_macro_auc",
    "recall",
    "estimated_recall",
)
SimulateRows = Callable[[int, np.random.Generator], pd.DataFrame]


def run() -> dict[str, Any]:
    """Simulate both tasks, and count the p-values that are not above each level."""
    p_values: dict[str, list[float]] = {}
    seconds = {}
    for task, simulate in {"regression": simulate_regression, "multiclass": simulate_classes}.items():
        start_s = time.perf_counter()
        for number in range(SIMULATIONS):
            for measure, p_value in _compute_p_values(task, simulate, np.random.default_rng(number)).items():
                p_values.setdefault(measure, []).append(p_value)
        seconds[task] = [time.perf_counter() - start_s]
    facts = {
        f"{measure}: p-values up to {level}": format_share(sum(value <= level for value in values), len(values))
        for measure, values in p_values.items()
        for level in LEVELS
    }
    simulations = f"{SIMULATIONS:,}; standard error of 5 %: {format_error(0.05, SIMULATIONS)}"
    return {"facts": {"simulations": simulations, **facts}, "seconds": seconds}


def simulate_regression(days: int, random: np.random.Generator) -> pd.DataFrame:
    """Simulate rows whose errors are larger where x is large, and in group b."""
    day = np.repeat(np.arange(days), ROWS)
    x = random.normal(0.3 * draw_day_values(days, CORRELATION, random)[day], 1.0)
    group = random.choice(list("abc"), len(day))
    score = 20.0 + 2.0 * x
    label = score + random.normal(size=len(day)) * np.exp(0.4 * x) * np.where(group == "b", 2.0, 1.0)
    return pd.DataFrame({"date": _list_dates(day), "x": x, "g": group, "label": label, "score": score})


def simulate_classes(days: int, random: np.random.Generator) -> pd.DataFrame:
    """Simulate rows of three classes, with the probabilities of an overconfident model."""
    day = np.repeat(np.arange(days), ROWS)
    day_effects = np.column_stack([draw_day_values(days, CORRELATION, random) for _ in CLASSES])[day]
    odds = np.exp(random.normal(0.0, 1.2, day_effects.shape) + 0.25 * day_effects + [0.0, 0.4, 1.0])
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    class_numbers = (probabilities.cumsum(axis=1)[:, :-1] < random.random(len(day))[:, np.newaxis]).sum(axis=1)
    rows = pd.DataFrame({"date": _list_dates(day), "x": day_effects[:, 0], "label": np.array(CLASSES)[class_numbers]})
    scores = odds**1.5 / (odds**1.5).sum(axis=1, keepdims=True)
    return append_scores(ORDERS, rows, pd.DataFrame(scores, columns=CLASSES))


def _list_dates(day: np.ndarray[Any, Any]) -> list[Any]:
    return list((pd.Timestamp("2013-01-07") + pd.to_timedelta(day, unit="D")).date)


def _compute_p_values(task: str, simulate: SimulateRows, random: np.random.Generator) -> Mapping[str, float]:
    """Simulate a holdout and a window, and compare them; return the p-value of each measure."""
    with tempfile.TemporaryDirectory() as path:
        holdout, window = Path(path) / "holdout.parquet", Path(path) / "window.parquet"
        simulate(HOLDOUT_DAYS, random).to_parquet(holdout)
        simulate(WINDOW_DAYS, random).to_parquet(window)
        if task == "regression":
            kinds = {"x": "number", "g": "category"}
            reference = fit_reference(holdout, kinds, "label", BinPolicy(), "regression")
            reference = reference.model_copy(update={"losses": fit_losses(reference, holdout)})
        else:
            # `append_scores` added the column `is_right`: whether the predicted class is the label.
            reference = fit_reference(holdout, {"x": "number"}, "is_right", BinPolicy())
            reference = reference.model_copy(update={"classes": fit_classes(holdout, "label")})
        holdout_profiles, window_profiles = (count_days(reference, file, "date") for file in (holdout, window))
    # Training days are not simulated: the profiles of the holdout stand for them, too.
    record = ReferenceRecord(reference, holdout_profiles, holdout_profiles)
    (comparison,) = windows.compare_windows(
        record, window_profiles, WINDOW_DAYS, weights={"x": 1.0}, policy=Policy(), label_delay_days=0
    )
    # The column of a finding is `performance`, or `performance/CLASS` for one class.
    return {
        f"{finding.measure}{finding.column.removeprefix('performance').replace('/', ' of class ')}": finding.p_value
        for finding in comparison.result.findings
        if finding.measure in MEASURES and finding.p_value is not None
    }
