"""Benchmarks of DAG parsing, lake writes, steps and the demo.

Each `measure_` function returns the seconds of each run, by row of the results. Except in `measure_demo`, the runs
of the compared rows alternate, so that the machine's load is the same for all of them.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ONE_DAY = dt.timedelta(days=1)
FIRST_DAY = dt.date(2013, 1, 1)
IMPORT_CODE = "import airflow\nfrom airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator\n"


def measure_parse() -> dict[str, list[float]]:
    """Measure a new process that parses dags/, and one that only imports Airflow and its operator for SageMaker."""
    dags_code = (
        IMPORT_CODE
        + "import runpy\n"
        + "".join(f"runpy.run_path({str(path)!r})\n" for path in sorted(PROJECT.glob("dags/*.py")))
    )
    codes = {
        "import airflow and the provider's operator (lower bound)": IMPORT_CODE,
        "the same, and parse dags/": dags_code,
    }
    with tempfile.TemporaryDirectory() as home:
        return _time_alternately(
            {row: partial(_run, [sys.executable, "-c", code], home) for row, code in codes.items()}, runs=9
        )


def measure_lake() -> dict[str, list[float]]:
    """Measure 60 partition writes of 1,000 rows from 8 processes: with the lake, and with pyiceberg and retries."""
    return _time_alternately(
        {
            "pipelines.lake, 60 writes, 8 processes": _build_lake_case(_write_with_lake),
            "pyiceberg with a retry loop (peer)": _build_lake_case(_write_with_pyiceberg),
        },
        runs=3,
    )


def measure_steps() -> dict[str, list[float]]:
    """Measure one day of flights with a process for each step, as operators run it, and ten days in one process."""
    with tempfile.TemporaryDirectory() as home:
        days = iter(FIRST_DAY + n * ONE_DAY for n in range(200))
        pipelines = [sys.executable, "-m", "pipelines"]

        def run_steps() -> None:
            day = next(days).isoformat()
            for step in ("ingest", "validate"):
                _run([*pipelines, step, "--dataset", "flights", "--partition", day], home)

        def run_backfill() -> None:
            first_day = next(days)
            last_day = first_day + 9 * ONE_DAY
            for _ in range(9):
                next(days)  # no later run uses these days again
            _run(
                [*pipelines, "backfill", "--dataset", "flights", "--first", str(first_day), "--last", str(last_day)],
                home,
            )

        return _time_alternately(
            {"1 day, one child process for each step": run_steps, "10 days, one process (backfill)": run_backfill},
            runs=5,
        )


def measure_demo() -> dict[str, list[float]]:
    """Measure `make demo` in an empty LEEWAY_HOME, then again, and compare with `dvc repro` for one as_of."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for row in ("make demo, empty home", "make demo, second run"):
            seconds[row] = [_measure_seconds(partial(_run, [sys.executable, "-m", "stack", "demo"], home))]
    with tempfile.TemporaryDirectory() as home:
        clone = Path(home) / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(clone)], check=True)
        repro = partial(_run, [sys.executable, "-m", "dvc", "repro", "gate@flights"], str(clone / ".leeway"), clone)
        seconds["dvc repro, empty lake, one as_of (peer)"] = [_measure_seconds(repro)]
        seconds["dvc repro, second run"] = [_measure_seconds(repro)]
    return seconds


def _time_alternately(calls: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Return the seconds of each call, by row of the results. The calls alternate, after one warm-up run of each."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {row: [] for row in calls}
    for _ in range(runs):
        for row, call in calls.items():
            seconds[row].append(_measure_seconds(call))
    return seconds


def _measure_seconds(call: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    call()
    return time.perf_counter() - start_s


def _run(command: list[str], home: str, cwd: Path = PROJECT) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "LEEWAY_HOME": home,
        "AIRFLOW_HOME": f"{home}/airflow",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(
            f"error: {' '.join(command[:6])} ended with exit code {result.returncode}: {result.stderr[-2_000:]}"
        )


def _build_lake_case(write: Callable[[str, int], None]) -> Callable[[], None]:
    """Return a function that writes 60 partitions to an empty folder, from 8 processes."""

    def call() -> None:
        with tempfile.TemporaryDirectory() as home, ProcessPoolExecutor(8) as pool:
            list(pool.map(partial(write, home), range(60)))

    return call


def _build_rows(index: int):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    return pa.table({"date": [FIRST_DAY + index * ONE_DAY] * 1_000, "x": list(range(1_000))})


def _write_with_lake(home: str, index: int) -> None:
    os.environ["LEEWAY_HOME"] = home
    from pipelines.lake import Lake
    from pipelines.settings import settings

    settings.cache_clear()
    Lake.open().write_partition("bench", FIRST_DAY + index * ONE_DAY, _build_rows(index))


def _write_with_pyiceberg(home: str, index: int) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo

    day = FIRST_DAY + index * ONE_DAY
    for attempt in range(200):
        try:
            catalog = SqlCatalog("bare", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
            catalog.create_namespace_if_not_exists("bench")
            table = catalog.create_table_if_not_exists("bench.bench", _build_rows(index).schema)
            table.overwrite(_build_rows(index), overwrite_filter=EqualTo("date", day.isoformat()))
            return
        except Exception:  # pyiceberg raises several errors after a conflict
            time.sleep(0.02 * (attempt + 1))
    raise RuntimeError("no commit in 200 attempts")
