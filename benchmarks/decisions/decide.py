"""Measure how long a drift decision takes from stored profiles of 25 columns, with windows of a week and of a year.

Before the measurement, the profiles of a year (1,000 rows a day) are written to a temporary lake, with a reference of
eight weeks. The time of reading the table of profiles and of the decision is measured, without imports. No raw row is
read.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RUNS, DAYS, ROWS, REFERENCE_DAYS = 5, 365, 1_000, 56
FIRST_DAY, REFERENCE_FIRST_DAY = dt.date(2013, 1, 1), dt.date(2012, 11, 1)
NUMERIC_COLUMNS, CATEGORY_COLUMNS = [f"x{n}" for n in range(20)], [f"g{n}" for n in range(5)]
CASES = {"a window of 7 days": (7, 1), "a window of 365 days": (365, 1), "60 windows of 7 days, as in the DAG": (7, 60)}
"""Maps the name of each case to the days of a window and the number of windows. By default, the step `drift` compares
60 windows (`history_days`)."""
MODEL_NAME, MODEL_VERSION = "flights", "1"


def run() -> dict[str, Any]:
    """Return the seconds of each case."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEEWAY_HOME"] = folder
        record = _write_profiles(Path(folder))
        for _ in range(RUNS):
            for name, (window_days, window_count) in CASES.items():
                seconds.setdefault(name, []).append(_time_decision(record, window_days, window_count))
    return {"seconds": seconds, "facts": {"columns": "25", "rows a day": f"{ROWS:,}"}}


def _time_decision(record: Any, window_days: int, window_count: int) -> float:
    from pipelines.monitoring import drift, windows
    from pipelines.monitoring.profiles.table import Profiles

    last_day = FIRST_DAY + dt.timedelta(DAYS - 1)
    start_s = time.perf_counter()
    profiles = Profiles.open().read_window(
        last_day - dt.timedelta(window_days + window_count - 2), last_day, MODEL_NAME, MODEL_VERSION
    )
    importances = {name: 1 / len(NUMERIC_COLUMNS) for name in NUMERIC_COLUMNS}
    compared_windows = list(
        windows.compare_windows(record, profiles, window_days, importances, drift.Policy(), label_delay_days=1)
    )
    drift.decide([window.result for window in compared_windows], drift.Policy())
    seconds = time.perf_counter() - start_s
    if len(compared_windows) != window_count:
        raise SystemExit(f"error: {len(compared_windows)} windows, {window_count} expected")
    return seconds


def _write_profiles(folder: Path) -> Any:
    """Write a profile of each day to the table of profiles, and return the record of the reference."""
    from pipelines.monitoring.profiles import BinPolicy
    from pipelines.monitoring.profiles.counting import count_days
    from pipelines.monitoring.profiles.record import ReferenceRecord
    from pipelines.monitoring.profiles.reference import fit_reference
    from pipelines.monitoring.profiles.table import Profiles

    reference_file, recent_file = folder / "reference.parquet", folder / "recent.parquet"
    _build_frame(REFERENCE_FIRST_DAY, REFERENCE_DAYS, 1).to_parquet(reference_file)
    _build_frame(FIRST_DAY, DAYS, 2).to_parquet(recent_file)
    kinds = dict.fromkeys(NUMERIC_COLUMNS, "number") | dict.fromkeys(CATEGORY_COLUMNS, "category")
    reference = fit_reference(reference_file, kinds, "y", BinPolicy())
    reference_days = count_days(reference, reference_file, "date")
    for day, profile in count_days(reference, recent_file, "date").items():
        Profiles.open().write(day, MODEL_NAME, MODEL_VERSION, profile)
    return ReferenceRecord(reference, reference_days, reference_days)


def _build_frame(first_day: dt.date, days: int, seed: int) -> pd.DataFrame:
    random, rows = np.random.default_rng(seed), days * ROWS
    features = {name: random.normal(size=rows) for name in NUMERIC_COLUMNS}
    features |= {name: random.choice(list("abcdefgh"), rows) for name in CATEGORY_COLUMNS}
    score = random.random(rows)
    dates = np.repeat([first_day + dt.timedelta(n) for n in range(days)], ROWS)
    return pd.DataFrame({"date": dates, **features, "score": score, "y": random.random(rows) < score})
