"""A decision over stored profiles: 25 columns, windows of a week and of a year, from the table to the answer.

A year of days with 1,000 rows each is profiled into a lake of its own, against a reference of eight weeks. Measured are
the reading of the table and the decision, in a process that has its imports; no raw row is read.
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

RUNS, DAYS, ROWS, THEN = 5, 365, 1_000, 56
FIRST, BEGAN = dt.date(2013, 1, 1), dt.date(2012, 11, 1)
NUMBERS, CATEGORIES = [f"x{n}" for n in range(20)], [f"g{n}" for n in range(5)]
CASES = {"a window of 7 days": (7, 1), "a window of 365 days": (365, 1), "60 windows of 7 days, as the DAG": (7, 60)}
"""Days of a window, windows."""


def run() -> dict[str, Any]:
    """Seconds of each."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEEWAY_HOME"] = folder
        record = _filled(Path(folder))
        for _ in range(RUNS):
            for name, (length, windows) in CASES.items():
                seconds.setdefault(name, []).append(_decided(record, length, windows))
    return {"seconds": seconds, "facts": {"columns": "25", "rows a day": f"{ROWS:,}"}}


def _decided(record: Any, length: int, count: int) -> float:
    from pipelines.monitoring import drift
    from pipelines.monitoring import windows as monitoring
    from pipelines.monitoring.profiles.table import Profiles

    last = FIRST + dt.timedelta(DAYS - 1)
    began = time.perf_counter()
    days = Profiles.open().window(last - dt.timedelta(length + count - 2), last, "flights", "1")
    weights = {name: 1 / len(NUMBERS) for name in NUMBERS}
    seen = list(monitoring.windows(record, days, length, weights, drift.Policy(), 1))
    drift.decide([one.result for one in seen], drift.Policy())
    taken = time.perf_counter() - began
    if len(seen) != count:
        raise SystemExit(f"error: {len(seen)} windows, {count} expected")
    return taken


def _filled(folder: Path) -> Any:
    """The reference's record, and a profile of each day in the table."""
    from pipelines.monitoring.profiles import Policy
    from pipelines.monitoring.profiles.counting import count_days
    from pipelines.monitoring.profiles.record import Record
    from pipelines.monitoring.profiles.reference import fit
    from pipelines.monitoring.profiles.table import Profiles

    then, now = folder / "then.parquet", folder / "now.parquet"
    _frame(BEGAN, THEN, 1).to_parquet(then)
    _frame(FIRST, DAYS, 2).to_parquet(now)
    kinds = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(CATEGORIES, "category")
    reference = fit(then, kinds, "y", Policy())
    held = count_days(reference, then, "date")
    for day, profile in count_days(reference, now, "date").items():
        Profiles.open().put(day, "flights", "1", profile)
    return Record(reference, held, held)


def _frame(first: dt.date, days: int, seed: int) -> pd.DataFrame:
    random, rows = np.random.default_rng(seed), days * ROWS
    made = {name: random.normal(size=rows) for name in NUMBERS}
    made |= {name: random.choice(list("abcdefgh"), rows) for name in CATEGORIES}
    chance = random.random(rows)
    when = np.repeat([first + dt.timedelta(n) for n in range(days)], ROWS)
    return pd.DataFrame({"date": when, **made, "score": chance, "y": random.random(rows) < chance})
