"""Measure a drift decision from stored profiles of 25 columns, with windows of a week and of a year.

A year of days with 1,000 rows each is profiled into a temporary lake, against a reference of eight weeks. The time
covers reading the table and deciding, in a process with all imports. No raw row is read.
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
FIRST, REFERENCE_START = dt.date(2013, 1, 1), dt.date(2012, 11, 1)
NUMBERS, CATEGORIES = [f"x{n}" for n in range(20)], [f"g{n}" for n in range(5)]
CASES = {"a window of 7 days": (7, 1), "a window of 365 days": (365, 1), "60 windows of 7 days, as the DAG": (7, 60)}
"""Name to days of a window, and number of windows."""


def run() -> dict[str, Any]:
    """Return the seconds of each case."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEEWAY_HOME"] = folder
        record = _write_profiles(Path(folder))
        for _ in range(RUNS):
            for name, (length, windows) in CASES.items():
                seconds.setdefault(name, []).append(_time_decision(record, length, windows))
    return {"seconds": seconds, "facts": {"columns": "25", "rows a day": f"{ROWS:,}"}}


def _time_decision(record: Any, length: int, count: int) -> float:
    from pipelines.monitoring import drift
    from pipelines.monitoring import windows as monitoring
    from pipelines.monitoring.profiles.table import Profiles

    last = FIRST + dt.timedelta(DAYS - 1)
    began = time.perf_counter()
    days = Profiles.open().read_window(last - dt.timedelta(length + count - 2), last, "flights", "1")
    weights = {name: 1 / len(NUMBERS) for name in NUMBERS}
    seen = list(monitoring.compare_windows(record, days, length, weights, drift.Policy(), 1))
    drift.decide([window.result for window in seen], drift.Policy())
    taken = time.perf_counter() - began
    if len(seen) != count:
        raise SystemExit(f"error: {len(seen)} windows, {count} expected")
    return taken


def _write_profiles(folder: Path) -> Any:
    """Write a profile of each day to the table, and return the record of the reference."""
    from pipelines.monitoring.profiles import Policy
    from pipelines.monitoring.profiles.counting import count_days
    from pipelines.monitoring.profiles.record import Record
    from pipelines.monitoring.profiles.reference import fit_reference
    from pipelines.monitoring.profiles.table import Profiles

    then, now = folder / "then.parquet", folder / "now.parquet"
    _build_frame(REFERENCE_START, REFERENCE_DAYS, 1).to_parquet(then)
    _build_frame(FIRST, DAYS, 2).to_parquet(now)
    kinds = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(CATEGORIES, "category")
    reference = fit_reference(then, kinds, "y", Policy())
    held = count_days(reference, then, "date")
    for day, profile in count_days(reference, now, "date").items():
        Profiles.open().write(day, "flights", "1", profile)
    return Record(reference, held, held)


def _build_frame(first: dt.date, days: int, seed: int) -> pd.DataFrame:
    random, rows = np.random.default_rng(seed), days * ROWS
    features = {name: random.normal(size=rows) for name in NUMBERS}
    features |= {name: random.choice(list("abcdefgh"), rows) for name in CATEGORIES}
    chance = random.random(rows)
    when = np.repeat([first + dt.timedelta(n) for n in range(days)], ROWS)
    return pd.DataFrame({"date": when, **features, "score": chance, "y": random.random(rows) < chance})
