"""Measure the seconds and the peak memory of reading a file of one day in batches, compared with pandas."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

PROJECT = Path(__file__).parents[1]
DAY = dt.date(2013, 1, 2)
SIZES = (100_000, 1_000_000, 10_000_000)
RUNS = {100_000: 3, 1_000_000: 3, 10_000_000: 1}
CHUNK_ROWS = 100_000
COLUMNS = {
    "id": pa.int64(),
    "at": pa.timestamp("us", tz="UTC"),
    **{f"number_{n}": pa.float64() for n in range(4)},
    **{f"word_{n}": pa.string() for n in range(4)},
}


def run(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Measure each format, size and reader in its own process. Return "seconds" and, as "facts", the peak memory."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            for file_format in ("csv", "parquet"):
                path = _write_file(Path(folder) / f"2013-01-02.{file_format}", size)
                for _ in range(RUNS.get(size, 1)):
                    for reader in ("FileSource", "pandas"):
                        result = _run_child(reader, path)
                        row = f"{file_format}, {size:,} rows, {reader}"
                        seconds.setdefault(row, []).append(result["seconds"])
                        facts[f"{row}: peak RSS"] = (
                            f"{result['peak_mb']:.0f} MB, of which imports {result['start_mb']:.0f}"
                        )
                path.unlink()
    return {"facts": facts, "seconds": seconds}


def _run_child(reader: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.sources", reader, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "LEEWAY_HOME": str(path.parent / "home")}
    process = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(
            f"error: {reader} of {path.name} ended with exit code {process.returncode}: {process.stderr[-2_000:]}"
        )
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def _write_file(path: Path, size: int) -> Path:
    random = np.random.default_rng(7)
    writer_class = pa.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    schema = _build_rows(random, 0, 1).schema
    with writer_class(str(path), schema) as file:
        for start in range(0, size, CHUNK_ROWS):
            file.write_table(_build_rows(random, start, min(CHUNK_ROWS, size - start)))
    return path


def _build_rows(random: np.random.Generator, start: int, rows: int) -> pa.Table:
    seconds = np.datetime64("2013-01-02T00:00:00", "us") + random.integers(0, 86_400, rows).astype("timedelta64[s]")
    times = pa.array(seconds).cast(pa.timestamp("us", tz="UTC"))
    numbers = {f"number_{n}": random.normal(size=rows).round(4) for n in range(4)}
    words = {f"word_{n}": pa.array(random.integers(0, 1_000, rows)).cast(pa.string()) for n in range(4)}
    return pa.table({"id": np.arange(start, start + rows), "at": times, **numbers, **words})


def _read_batches(reader: str, path: Path) -> Iterator[int]:
    """Yield the number of rows of each batch."""
    if reader == "pandas":
        import pandas as pd

        frame = pd.read_csv(path, parse_dates=["at"]) if path.suffix == ".csv" else pd.read_parquet(path)
        yield len(frame)
        return
    from pipelines.ingestion.sources import FileSource

    file_format: Any = path.suffix[1:]
    source = FileSource(f"{path.parent}/{{date}}.{file_format}", file_format, columns=COLUMNS)
    yield from (batch.num_rows for batch in source.read(DAY))


def read_peak_mb() -> float:
    """Return the peak memory of this process in MB.

    getrusage would return the peak of the parent process if that is larger.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _measure(reader: str, path: Path) -> None:
    if reader == "pandas":
        import pandas as pd  # noqa: F401
    else:
        import pipelines.ingestion.sources.files.file_source  # noqa: F401
    start_mb = read_peak_mb()
    start_s = time.perf_counter()
    rows = sum(_read_batches(reader, path))
    elapsed_s = time.perf_counter() - start_s
    print(json.dumps({"rows": rows, "seconds": elapsed_s, "start_mb": start_mb, "peak_mb": read_peak_mb()}))


if __name__ == "__main__":
    _measure(sys.argv[1], Path(sys.argv[2]))
