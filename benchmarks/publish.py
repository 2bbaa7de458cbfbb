"""Measure the publication of a Parquet file of one day, and compare with pandas and Great Expectations.

The rows and the 18 checks are those of the benchmark `validation`; bad rows are quarantined. Each step runs in its own
process, as operators run it. Seconds and peak memory are those of whole processes, imports included.
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
from benchmarks.sources import read_peak_mb

PROJECT = Path(__file__).parents[1]
RUNS = {100_000: 3, 1_000_000: 3, 10_000_000: 2}
"""Number of runs by the number of rows of the day."""
FILE_NAME = f"{validation.DAY}.parquet"
CORRECTED_ROWS = "SELECT * REPLACE (CASE WHEN id % 8 = 0 THEN hour + 1 ELSE hour END AS hour) FROM ({rows})"
"""Query of the same day after the source has corrected one row in eight."""
LEEWAY_ROW, PEER_ROW = "ingest, validate, publish", "pandas, Great Expectations"
SECOND_INGEST_ROW = "second ingest, one row in eight changed"
"""Names of rows in the results."""


def run(runs: Mapping[int, int] = RUNS) -> dict[str, Any]:
    """Measure Leeway's steps and the peer (pandas and Great Expectations) alternately, at each size.

    Returns:
        "seconds" by name of the row; "facts": peak memory, rows a second, and whether the verdicts are equal.
    """
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    for size, run_count in runs.items():
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), size)
            for _ in range(run_count):
                _run_round(Path(folder), f"{size:,} rows", seconds, facts)
        for row in (LEEWAY_ROW, PEER_ROW):
            rate = size / statistics.median(seconds[f"{size:,} rows, {row}"])
            facts[f"{size:,} rows, {row}: rows a second"] = f"{rate:,.0f}"
    return {"facts": facts, "seconds": seconds}


def _run_round(folder: Path, size: str, seconds: dict[str, list[float]], facts: dict[str, str]) -> None:
    """Run every step once, in a new LEEWAY_HOME; add the seconds and facts of those that have a row in the results."""
    with tempfile.TemporaryDirectory() as home:
        validation.write_suite(Path(home))
        results, seconds_by_step = {}, {}
        for step in STEPS:
            start_s = time.perf_counter()
            results[step] = run_child(step, folder, home)
            seconds_by_step[step] = time.perf_counter() - start_s
    step_by_row = {"ingest": "ingest", SECOND_INGEST_ROW: "second_ingest", PEER_ROW: "peer"}
    seconds_by_row = {
        LEEWAY_ROW: seconds_by_step["ingest"] + seconds_by_step["validate"],
        **{row: seconds_by_step[step] for row, step in step_by_row.items()},
    }
    for row, value in seconds_by_row.items():
        seconds.setdefault(f"{size}, {row}", []).append(value)
    for row, step in {**step_by_row, "validate, publish": "validate"}.items():
        facts[f"{size}, {row}: peak memory"] = f"{results[step]['peak_mb']:.0f} MB"
    is_equal = all(results["validate"][name] == results["peer"][name] for name in ("verdicts", "rows"))
    facts[f"{size}: the same verdicts, counts and rows published"] = str(is_equal)


def run_child(step: str, folder: Path, home: str) -> dict[str, Any]:
    """Run one of `STEPS` in its own process.

    Args:
        step: name of the step.
        folder: the folder to which `write_files` has written.
        home: LEEWAY_HOME, which has the folder expectations/ too.

    Returns:
        the result of the step, and "peak_mb", its peak memory in MB.
    """
    environment = {**os.environ, "LEEWAY_HOME": home, "LEEWAY_PROJECT": home, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "benchmarks.publish", step, str(folder)]
    process = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"error: {step} ended with exit code {process.returncode}: {process.stderr[-2_000:]}")
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


def write_files(folder: Path, size: int) -> None:
    """Write the day's file of `size` rows to `folder`/first, and its later content to `folder`/later."""
    import duckdb

    rows = validation.TABLE.format(rows=size)
    for name, query in {"first": rows, "later": CORRECTED_ROWS.format(rows=rows)}.items():
        (folder / name).mkdir()
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(f"COPY ({query}) TO '{folder / name / FILE_NAME}' (FORMAT parquet)")


def _ingest(folder: Path) -> dict[str, Any]:
    from pipelines.dataset import Dataset
    from pipelines.ingestion.sources import FileSource
    from pipelines.lake import Lake
    from pipelines.steps.ingest import stage_partition

    source, day = FileSource(f"{folder}/{{date}}.parquet", "parquet"), dt.date.fromisoformat(validation.DAY)
    result = stage_partition(Dataset(name="flights", key=("id",)), source, day, Lake.open())
    return {"rows": result.rows}


def _sync(path: Path, condition: str = "TRUE") -> dict[str, Any]:
    """Sync the rows of a file for which the SQL condition holds."""
    import duckdb
    import pyarrow as pa

    from pipelines.dataset import Dataset
    from pipelines.source import Description
    from pipelines.steps.sync import stage_changes

    class Changes:
        """A source whose changes are these rows. It reads them with the connection that is opened below."""

        cursor = "id"

        def describe(self) -> Description:
            return Description("file", str(path))

        def read_changes(self, since: str | None) -> pa.RecordBatchReader:
            return connection.sql(f"FROM '{path}' WHERE {condition}").to_arrow_reader(100_000)

    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '256MiB'")
        result = stage_changes(Dataset(name="orders", key=("id",)), Changes(), "")
    return {"rows": result.rows}


def _validate(_: Path) -> dict[str, Any]:
    result = validation.validate_day()
    # After the checks of the suite come those that the step adds to each suite.
    results = json.loads(result.evidence.read_text())["results"][: len(validation.CHECKS)]
    return {
        "rows": result.rows,
        "verdicts": [validation.summarize_verdict(item["success"], item["result"]) for item in results],
    }


def _validate_with_peer(folder: Path) -> dict[str, Any]:
    """Read the file into a data frame, validate it, and write its bad rows and its good rows to two files."""
    import pandas as pd

    frame = pd.read_parquet(folder / FILE_NAME)
    verdicts = validation.validate_with_gx(frame)
    is_good = frame["speed"].between(0, 100) & frame["hour"].between(0, 2398)
    frame[~is_good].to_parquet(folder / "quarantined")
    frame[is_good].to_parquet(folder / "published")
    return {"rows": int(is_good.sum()), "verdicts": verdicts}


STEPS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "ingest": lambda folder: _ingest(folder / "first"),
    "validate": _validate,
    "second_ingest": lambda folder: _ingest(folder / "later"),
    "second_validate": _validate,
    "sync": lambda folder: _sync(folder / "first" / FILE_NAME),
    "second_sync": lambda folder: _sync(folder / "later" / FILE_NAME, "id % 8 = 0"),
    "peer": lambda folder: _validate_with_peer(folder / "first"),
}

if __name__ == "__main__":
    result = STEPS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(result | {"peak_mb": read_peak_mb()}))
