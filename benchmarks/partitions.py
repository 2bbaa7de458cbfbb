"""Measure `python -m pipelines backfill` of many small partitions of real weather.

One dataset has a file with 24 rows for each day, the other a file with 3 rows for each hour.

LEEWAY_BENCH_BEFORE=FOLDER names a checkout of an earlier commit. Then its code is also measured, alternately with the
present code. LEEWAY_BENCH_DAYS sets a smaller number of days than the year's 365.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
BEFORE = os.environ.get("LEEWAY_BENCH_BEFORE", "")
DAYS, HOURS = int(os.environ.get("LEEWAY_BENCH_DAYS", "365")), 120
"""Number of partitions that are backfilled: of the dataset `days`, and of the dataset `hours`."""
RUNS = 1
DATASET = """
from pipelines.dataset import Dataset

DATASET = Dataset(name="{unit}s", key=("origin", "time_hour"), event_time="time_hour", timezone="UTC"{partition})
"""
SOURCE = """
from pipelines.ingestion.sources import FileSource

def open_source(folder=None):
    return FileSource("{folder}/{{date}}.parquet", "parquet", {partition})
"""
SUITE = {
    "expectations": [
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}, "severity": "critical"},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "origin"}, "severity": "critical"},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "temp", "min_value": -20, "max_value": 110, "mostly": 0.9},
            "severity": "warning",
        },
    ]
}


def run() -> dict[str, Any]:
    """Measure the backfills, each in a home of its own. Return the wall-clock seconds, and the CPU seconds as facts."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, Any] = {}
    last_day = (dt.date(2013, 1, 1) + dt.timedelta(DAYS - 1)).isoformat()
    last_hour = f"{dt.date(2013, 1, 2) + dt.timedelta(HOURS // 24 - 1)}T23"
    with tempfile.TemporaryDirectory() as folder:
        project = _write_project(Path(folder))
        for _ in range(RUNS):
            for name, code in {"before": Path(BEFORE).resolve(), "now": PROJECT}.items():
                if name == "before" and not BEFORE:
                    continue
                _measure(
                    f"{DAYS} days of 24 rows, {name}", code, project, "days", "2013-01-01", last_day, seconds, facts
                )
        _measure(f"{HOURS} hours of 3 rows, now", PROJECT, project, "hours", "2013-01-02T00", last_hour, seconds, facts)
    return {"facts": facts, "seconds": seconds}


def _measure(
    case: str,
    code: Path,
    project: Path,
    dataset: str,
    first: str,
    last: str,
    seconds: dict[str, list[float]],
    facts: dict[str, Any],
) -> None:
    """Run one backfill with an empty LEEWAY_HOME; add its seconds, CPU seconds and number of published partitions."""
    with tempfile.TemporaryDirectory() as home:
        variables = {"PYTHONPATH": str(code), "LEEWAY_PROJECT": str(project), "LEEWAY_HOME": home}
        variables["LEEWAY_DATASETS"] = str(project / "datasets" / dataset)
        command = [sys.executable, "-m", "pipelines", "backfill", "--dataset", dataset, "--on-absent", "skip"]
        start_s, start_cpu_s = time.monotonic(), _read_cpu_seconds()
        process = subprocess.run(
            [*command, "--first", first, "--last", last],
            cwd=code, env={**os.environ, **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if process.returncode:
            raise SystemExit(
                f"error: the backfill ended with exit code {process.returncode}: {process.stderr[-2_000:]}"
            )
        seconds.setdefault(case, []).append(time.monotonic() - start_s)
        cpu_s = round(_read_cpu_seconds() - start_cpu_s, 1)
        facts[f"{case}: published"] = json.loads(process.stdout)["published"]
        facts[f"{case}: CPU seconds"] = min(cpu_s, facts.get(f"{case}: CPU seconds", cpu_s))


def _read_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _write_project(folder: Path) -> Path:
    """Write two datasets, each in a folder of its own, with their files and suites."""
    (folder / "expectations").mkdir()
    for unit in ("day", "hour"):
        package, files = folder / "datasets" / f"{unit}s" / f"{unit}s", folder / f"{unit}s"
        package.mkdir(parents=True)
        files.mkdir()
        # LEEWAY_BENCH_BEFORE may have no field `partition`, so `days`, which it also loads, does not set this field.
        partition = 'partition="hour"' if unit == "hour" else ""
        (package / "__init__.py").write_text(
            DATASET.format(unit=unit, partition=f", {partition}" if partition else ""), encoding="utf-8"
        )
        (package / "source.py").write_text(SOURCE.format(folder=files, partition=partition), encoding="utf-8")
        suite = json.dumps({"name": f"{unit}s", **SUITE})
        (folder / "expectations" / f"{unit}s.json").write_text(suite, encoding="utf-8")
        _write_files(unit, files)
    return folder


def _write_files(unit: str, folder: Path) -> None:
    """Write the weather: a file for each day at Newark, or for each of the first hours at all three airports."""
    import duckdb

    from pipelines.datasets.flights.source import find_package_data

    name_format = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}[unit]
    first_hours = f"time_hour < TIMESTAMPTZ '2013-01-02 00:00:00+00' + INTERVAL {HOURS} HOUR"
    condition = "origin = 'EWR'" if unit == "day" else first_hours
    weather = f"read_csv('{find_package_data()}/weather.csv', nullstr = 'NA')"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = f"origin, time_hour, temp, dewp, humid, pressure, strftime(time_hour, '{name_format}') AS name"
        connection.execute(f"CREATE TABLE weather AS SELECT {columns} FROM {weather} WHERE {condition}")
        for (name,) in connection.execute("SELECT DISTINCT name FROM weather").fetchall():
            rows = f"SELECT * EXCLUDE (name) FROM weather WHERE name = '{name}' ORDER BY ALL"
            connection.execute(f"COPY ({rows}) TO '{folder}/{name}.parquet' (FORMAT parquet)")
