"""Measure how long the profile of a partition of 25 columns takes, compared with a plain DuckDB query.

Each run has its own process. The plain query counts rows in 20 bins of equal width, and computes no moments. The
profile has the quantile bins of a reference, moments, missing values and unseen categories.

LEEWAY_BENCH_ROWS sets the sizes (default 1000000,5000000; 50000000 needs 9 GB of disk). With LEEWAY_BENCH_PEERS=1,
Evidently, NannyML and whylogs each compare two files of a million rows, once. They read both files, while the profile
reads one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.decisions.drift_tools import DRIFT_TOOLS, TOOL_VARIABLES

PROJECT = Path(__file__).parents[1]
RUNS = 3
PEER_ROWS = 1_000_000
NUMERIC_COLUMNS, CATEGORY_COLUMNS = [f"x{n}" for n in range(20)], [f"g{n}" for n in range(5)]
DEFAULT_SIZES = "1000000,5000000"
PLAIN_CODE = """
import sys, duckdb
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
bins = [f"histogram(least(greatest(floor({name} * 2)::INT, -10), 9))" for name in sys.argv[2].split(",")]
bins += [f"histogram({name})" for name in sys.argv[3].split(",")]
connection.execute(f"SELECT count(*), {', '.join(bins)} FROM read_parquet(?)", [sys.argv[1]]).fetchall()
"""
PROFILE_CODE = """
import sys
from pathlib import Path
from pipelines.monitoring.profiles.counting import count_file
from pipelines.monitoring.profiles.reference import Reference
reference = Reference.model_validate_json(Path(sys.argv[2]).read_text())
count_file(reference, Path(sys.argv[1]))
"""
START_CODE = "import pipelines.monitoring.profiles.counting"
FIT_CODE = """
import sys
from pathlib import Path
from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.reference import fit_reference
kinds = dict.fromkeys(sys.argv[3].split(","), "number") | dict.fromkeys(sys.argv[4].split(","), "category")
Path(sys.argv[2]).write_text(fit_reference(Path(sys.argv[1]), kinds, "y", BinPolicy()).model_dump_json())
"""
# This runs in its own process, because the peak memory of a parent counts as that of its children.
GENERATE_CODE = """
import sys, duckdb
columns = [f"2 * (random() + random() + random() - 1.5) AS {name}" for name in sys.argv[3].split(",")]
columns += [f"'c' || CAST(floor(random() * 8) AS INT) AS {name}" for name in sys.argv[4].split(",")]
connection = duckdb.connect(config={"preserve_insertion_order": "false"})
connection.execute("SET enable_progress_bar = false")
connection.execute(f"COPY (SELECT {', '.join(columns)} FROM range({sys.argv[2]})) TO '{sys.argv[1]}' (FORMAT parquet)")
"""


def run() -> dict[str, Any]:
    """Measure profile and query at each size. Return their seconds, and as facts peak memory and CPU seconds."""
    seconds: dict[str, list[float]] = {}
    facts: dict[str, str] = {}
    if os.environ.get("LEEWAY_BENCH_PEERS"):
        with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
            _measure_tools(Path(folder), seconds, facts)
    for rows in map(int, os.environ.get("LEEWAY_BENCH_ROWS", DEFAULT_SIZES).split(",")):
        with tempfile.TemporaryDirectory(dir=os.environ.get("LEEWAY_BENCH_TMP")) as folder:
            _measure(Path(folder), rows, seconds, facts)
    return {"seconds": seconds, "facts": facts}


def _measure_tools(folder: Path, seconds: dict[str, list[float]], facts: dict[str, str]) -> None:
    columns = [",".join(NUMERIC_COLUMNS), ",".join(CATEGORY_COLUMNS)]
    files = [str(folder / f"{name}.parquet") for name in ("reference", "current")]
    for path in files:
        _run_code(GENERATE_CODE, [path, str(PEER_ROWS), *columns], folder)
    for name, tool in DRIFT_TOOLS.items():
        _run_command(tool.build_command("pass"), folder, TOOL_VARIABLES)  # creates the environment
        row = f"{name} (peer), two files of {PEER_ROWS:,} rows"
        elapsed_s, cpu_s, peak_mb = _run_command(
            [*tool.build_command(tool.code), *files, *columns], folder, TOOL_VARIABLES
        )
        seconds[row], facts[row] = [elapsed_s], f"{cpu_s:.2f} s of CPU, peak {peak_mb:,.0f} MiB"


def _measure(folder: Path, rows: int, seconds: dict[str, list[float]], facts: dict[str, str]) -> None:
    path, reference, columns = (
        folder / "rows.parquet",
        folder / "reference.json",
        [",".join(NUMERIC_COLUMNS), ",".join(CATEGORY_COLUMNS)],
    )
    _run_code(GENERATE_CODE, [str(folder / "train.parquet"), "100000", *columns], folder)
    _run_code(GENERATE_CODE, [str(path), str(rows), *columns], folder)
    _run_code(FIT_CODE, [str(folder / "train.parquet"), str(reference), *columns], folder)
    commands = {
        "profile": (PROFILE_CODE, [str(path), str(reference)]),
        "profile, start and imports only": (START_CODE, []),
        "plain DuckDB query (peer)": (PLAIN_CODE, [str(path), *columns]),
    }
    cpu_by_row: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    for _ in range(RUNS):
        for name, (code, arguments) in commands.items():
            elapsed_s, cpu_s, peak_mb = _run_code(code, arguments, folder)
            row = f"{name}, {rows:,} rows"
            seconds.setdefault(row, []).append(elapsed_s)
            cpu_by_row.setdefault(row, []).append(cpu_s)
            peaks[row] = max(peaks.get(row, 0.0), peak_mb)
    for row, peak_mb in peaks.items():
        facts[row] = f"{statistics.median(cpu_by_row[row]):.2f} s of CPU, peak {peak_mb:,.0f} MiB"


def _run_code(code: str, arguments: list[str], folder: Path) -> tuple[float, float, float]:
    """Run Python code with this project's packages. Return the same as `_run_command`."""
    paths = f"{PROJECT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    variables = {"PYTHONPATH": paths, "LEEWAY_HOME": str(folder / "home")}
    return _run_command([sys.executable, "-c", code, *arguments], folder, variables)


def _run_command(command: list[str], folder: Path, variables: Mapping[str, str]) -> tuple[float, float, float]:
    """Run a process. Return its seconds, its CPU seconds and its peak memory in MiB; all include its start."""
    start_s = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env={**os.environ, **variables})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"error: a process of the benchmark ended with exit code {child.returncode}")
    return time.perf_counter() - start_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
