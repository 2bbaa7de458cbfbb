"""Measure the step `preprocess`, which builds the features of a window in batches, and compare with pandas.

The window repeats the real year of flights under later dates, in a folder with one file for each year, sorted by day
and key as in the lake. Each run is a whole process: start, imports, reading, features, sorting, writing. The benchmark
fails if a value differs from that of pandas.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

PROJECT = Path(__file__).parents[1]
YEAR_ROWS = 336_776
YEARS = {"1 M rows": 3, "10 M rows": 30}
"""Maps each size to the number of years in the window."""
RUNS = 3
VALIDATION_DAYS, HOLDOUT_DAYS = 7, 28
PANDAS_CODE = """
import json, sys
from pathlib import Path
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

window, target, splits = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
table = pa.concat_tables([pq.read_table(path) for path in sorted((window / "rows").glob("*.parquet"))])
rows = table.to_pandas(self_destruct=True)
del table
rows["date"] = pd.to_datetime(rows["date"])
key = ["date", "carrier", "flight", "origin"]
for name, (first, last) in splits.items():
    part = rows[rows["date"].between(first, last)]
    hour = part["sched_dep_time"] // 100
    by_hour = pd.DataFrame({"date": part["date"], "origin": part["origin"], "hour": hour})
    features = part[key].copy()
    features["weekday"] = part["date"].dt.day_of_week.astype("float64")
    features["departs_minute"] = (hour * 60 + part["sched_dep_time"] % 100).astype("float64")
    features["arrives_minute"] = (part["sched_arr_time"] // 100 * 60 + part["sched_arr_time"] % 100).astype("float64")
    features["distance"] = part["distance"].astype("float64")
    sizes = by_hour.groupby(["date", "origin", "hour"], sort=False, dropna=False)["hour"].transform("size")
    features["departures_hour"] = sizes.astype("float64")
    for column in part.columns:
        if column.startswith("weather_"):
            features[column] = part[column].astype("float64")
    features["plane_age"] = (part["date"].dt.year - part["plane_year"]).astype("float64")
    features["plane_seats"] = part["plane_seats"].astype("float64")
    for column in ("dest", "plane_manufacturer", "late"):
        features[column] = part[column]
    features = features[features["late"].notna()].sort_values(key)
    features["late"] = features["late"].astype("bool")
    (target / name).mkdir(parents=True)
    features.to_parquet(target / name / "data.parquet", compression="zstd", index=False)
"""


def run() -> dict[str, object]:
    """Measure the step and pandas at each size. Return their seconds, and as facts rows per second and peak memory."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    for size, years in YEARS.items():
        with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
            splits = _write_window(Path(folder) / "window", years)
            _measure(Path(folder), size, years * YEAR_ROWS, splits, seconds, facts)
    return {"seconds": seconds, "facts": facts}


def _measure(
    folder: Path,
    size: str,
    rows: int,
    splits: dict[str, tuple[str, str]],
    seconds: dict[str, list[float]],
    facts: dict[str, str],
) -> None:
    """Run the step and pandas alternately, compare their features, and add their seconds and facts."""
    commands = {
        f"preprocess on DuckDB, {size}": [
            *(sys.executable, "-m", "pipelines", "preprocess", "--window", str(folder / "window")),
            *("--validation-days", str(VALIDATION_DAYS), "--features", str(folder / "ours"), "--out", "result.json"),
        ],
        f"pandas, {size} (peer)": [
            *(sys.executable, "-c", PANDAS_CODE, str(folder / "window"), str(folder / "peer"), json.dumps(splits)),
        ],
    }
    peaks: dict[str, int] = {}
    for _ in range(RUNS):
        for name, command in commands.items():
            subprocess.run(["rm", "-rf", str(folder / "peer")], check=True)
            elapsed_s, peak = _run_process(command, folder)
            seconds.setdefault(name, []).append(elapsed_s)
            peaks[name] = max(peaks.get(name, 0), peak)
    _compare_values(folder / "ours", folder / "peer")
    for name, peak in peaks.items():
        median_s = sorted(seconds[name])[RUNS // 2]
        facts[name] = f"{rows / median_s:,.0f} rows/s, peak {peak / 1024:,.0f} MiB"


def _write_window(folder: Path, years: int) -> dict[str, tuple[str, str]]:
    """Write the folder of a window of `years` years, and return the first and last day of each split."""
    from pipelines.datasets.flights.source import open_source
    from pipelines.features.pinned_rows import PinnedRows, pack
    from pipelines.steps.snapshot import SnapshotResult

    source, year = open_source(), folder.parent / "year.parquet"
    first = dt.date(2013, 1, 1)
    daily_tables = [source.read(first + dt.timedelta(n)).read_all() for n in range(365)]
    pq.write_table(pa.concat_tables(daily_tables), year, compression="zstd")
    paths = [str(folder.parent / f"{n:02d}.parquet") for n in range(years)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for n, path in enumerate(paths):
            later_dates = (
                f"CAST(date + INTERVAL {n} YEAR AS DATE) AS date, scheduled_at + INTERVAL {n} YEAR AS scheduled_at"
            )
            connection.execute(f"COPY (SELECT * REPLACE ({later_dates}) FROM '{year}') TO '{path}' (COMPRESSION zstd)")
    last, one_day = dt.date(first.year + years - 1, 12, 31), dt.timedelta(days=1)
    holdout_first = last - (HOLDOUT_DAYS - 1) * one_day
    # A label is known one day after its row. So the last day with known labels is two days before as_of or the holdout.
    result = SnapshotResult(
        dataset="flights", table="flights", snapshot_id=1, as_of=last + 2 * one_day, train_first=first,
        train_last=holdout_first - 2 * one_day, holdout_first=holdout_first, holdout_last=last, rows=years * YEAR_ROWS,
        missing_days=0,
    )  # fmt: skip
    pack(PinnedRows(result, paths, pq.read_schema(year)), folder)
    last_train_day = result.train_last - VALIDATION_DAYS * one_day
    splits = {
        "train": (first, last_train_day),
        "validation": (last_train_day + one_day, result.train_last),
        "holdout": (holdout_first, last),
    }
    return {name: (str(start), str(end)) for name, (start, end) in splits.items()}


def _run_process(command: list[str], folder: Path) -> tuple[float, int]:
    """Run a process, and return its seconds and its peak memory in KiB. Both include its start."""
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "LEEWAY_HOME": str(folder / "home"), "LEEWAY_PROJECT": str(folder)}
    start_s = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"error: {command[:4]} ended with exit code {child.returncode}")
    return time.perf_counter() - start_s, usage.ru_maxrss


def _compare_values(step_folder: Path, peer_folder: Path) -> None:
    """Raise an error if a value of a split differs between the step and pandas."""
    names = pq.read_schema(step_folder / "train/data.parquet").names
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}"' if name != "date" else "CAST(date AS DATE) AS date" for name in names)
        for name in ("train", "validation", "holdout"):
            query, peer_query = (
                f"SELECT {columns} FROM '{folder / name}/data.parquet'" for folder in (step_folder, peer_folder)
            )
            difference_query = (
                f"SELECT count(*) FROM (({query} EXCEPT ALL {peer_query}) UNION ALL ({peer_query} EXCEPT ALL {query}))"
            )
            count = connection.execute(difference_query).fetchone()
            if count is None or count[0]:
                raise SystemExit(f"error: rows of {name} differ from those of pandas: {count}")
