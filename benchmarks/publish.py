"""A day from its Parquet file to the published table, by its rows, beside pandas and Great Expectations.

The rows and the 18 checks are those of `validation`, the bad rows are set aside. Each step is a process of its own, as
operators run it: seconds of the whole process, and the most memory that it held.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import validation
from benchmarks.sources import peak_mb

PROJECT = Path(__file__).parents[1]
RUNS = {100_000: 3, 1_000_000: 3, 10_000_000: 2}
"""Rows of the day to number of runs."""
NAME = f"{validation.DAY}.parquet"
LATER = "SELECT * REPLACE (CASE WHEN id % 8 = 0 THEN hour + 1 ELSE hour END AS hour) FROM ({rows})"
"""The day as it comes again, late, with a row in eight corrected."""
OURS, AGAIN, PEER = "ingest, validate, publish", "ingest again, a row in eight changed", "pandas, Great Expectations"


def run(runs: Mapping[int, int] = RUNS) -> dict[str, Any]:
    """Seconds by size and step, ours and theirs in turn; facts: memory, rows a second, whether verdicts are equal."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    for size, times in runs.items():
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), size)
            for _ in range(times):
                _round(Path(folder), f"{size:,} rows", seconds, facts)
        for row in (OURS, PEER):
            rate = size / statistics.median(seconds[f"{size:,} rows, {row}"])
            facts[f"{size:,} rows, {row}: rows a second"] = f"{rate:,.0f}"
    return {"facts": facts, "seconds": seconds}


def _round(folder: Path, size: str, seconds: dict[str, list[float]], facts: dict[str, str]) -> None:
    """Every step once, in a new home."""
    with tempfile.TemporaryDirectory() as home:
        validation.write_suite(Path(home))
        told, took = {}, {}
        for step in STEPS:
            began = time.perf_counter()
            told[step] = _child(step, folder, home)
            took[step] = time.perf_counter() - began
    rows = {"ingest": "ingest", AGAIN: "again", PEER: "peer"}
    for row, value in {OURS: took["ingest"] + took["validate"], **{row: took[rows[row]] for row in rows}}.items():
        seconds.setdefault(f"{size}, {row}", []).append(value)
    for row, step in {**rows, "validate, publish": "validate"}.items():
        facts[f"{size}, {row}: most memory"] = f"{told[step]['peak_mb']:.0f} MB"
    same = all(told["validate"][name] == told["peer"][name] for name in ("verdicts", "rows"))
    facts[f"{size}: the same verdicts, counts and rows published"] = str(same)


def _child(step: str, folder: Path, home: str) -> dict[str, Any]:
    environment = {**os.environ, "LEEWAY_HOME": home, "LEEWAY_PROJECT": home, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "benchmarks.publish", step, str(folder)]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {step} ended with {done.returncode}: {done.stderr[-2_000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _write(folder: Path, size: int) -> None:
    import duckdb

    rows = validation.TABLE.format(rows=size)
    for name, query in {"first": rows, "later": LATER.format(rows=rows)}.items():
        (folder / name).mkdir()
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(f"COPY ({query}) TO '{folder / name / NAME}' (FORMAT parquet)")


def _ingest(folder: Path) -> dict[str, Any]:
    from pipelines.dataset import Dataset
    from pipelines.ingestion.sources import FileSource
    from pipelines.steps.ingest import stage_partition

    source = FileSource(f"{folder}/{{date}}.parquet", "parquet")
    told = stage_partition(Dataset(name="flights", key=("id",)), source, dt.date.fromisoformat(validation.DAY))
    return {"rows": told.rows}


def _validate(_: Path) -> dict[str, Any]:
    from pipelines.steps import validate

    told = validate.run(validate.ValidateSpec(partition=dt.date.fromisoformat(validation.DAY)))
    results = json.loads(told.evidence.read_text())["results"]
    return {"rows": told.rows, "verdicts": [validation.in_short(one["success"], one["result"]) for one in results]}


def _peer(folder: Path) -> dict[str, Any]:
    """The file in a data frame, judged, its bad rows in one file and the others in another."""
    import pandas as pd

    frame = pd.read_parquet(folder / NAME)
    verdicts = validation.verdicts_of_gx(frame)
    good = frame["speed"].between(0, 100) & frame["hour"].between(0, 2398)
    frame[~good].to_parquet(folder / "aside")
    frame[good].to_parquet(folder / "published")
    return {"rows": int(good.sum()), "verdicts": verdicts}


STEPS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "ingest": lambda folder: _ingest(folder / "first"),
    "validate": _validate,
    "again": lambda folder: _ingest(folder / "later"),
    "peer": lambda folder: _peer(folder / "first"),
}

if __name__ == "__main__":
    answer = STEPS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(answer | {"peak_mb": peak_mb()}))
