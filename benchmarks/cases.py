"""The benchmarks: each gives row name to seconds, one a run; peers are interleaved with what they are compared with."""

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
DAY = dt.timedelta(days=1)
FIRST = dt.date(2013, 1, 1)
BASE = "import airflow\nfrom airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator\n"


def parse() -> dict[str, list[float]]:
    """A fresh process that parses dags/, beside one that only imports Airflow and the provider's operator."""
    dags = (
        BASE
        + "import runpy\n"
        + "".join(f"runpy.run_path({str(path)!r})\n" for path in sorted(PROJECT.glob("dags/*.py")))
    )
    rows = {"import airflow and the provider's operator (floor)": BASE, "the same, and parse dags/": dags}
    with tempfile.TemporaryDirectory() as home:
        return _interleaved({row: partial(_run, [sys.executable, "-c", code], home) for row, code in rows.items()}, 9)


def lake() -> dict[str, list[float]]:
    """60 partition writes of 1,000 rows from 8 processes, by our lake and by bare pyiceberg with a retry loop."""
    return _interleaved(
        {"pipelines.lake, 60 writes, 8 processes": _lake(_write), "bare pyiceberg with a retry loop": _lake(_bare)}, 3
    )


def steps() -> dict[str, list[float]]:
    """One day of flights: a child a step, as the operators run it, beside all days in one process."""
    with tempfile.TemporaryDirectory() as home:
        days = iter(FIRST + n * DAY for n in range(200))
        pipelines = [sys.executable, "-m", "pipelines"]

        def children() -> None:
            day = next(days).isoformat()
            for step in ("ingest", "validate"):
                _run([*pipelines, step, "--partition", day], home)

        def together() -> None:
            first = next(days)
            last = first + 9 * DAY
            for _ in range(9):
                next(days)
            _run([*pipelines, "backfill", "--first", str(first), "--last", str(last)], home)

        return _interleaved(
            {"1 day, a child each for ingest and validate": children, "10 days, one process (backfill)": together}, 5
        )


def demo() -> dict[str, list[float]]:
    """`make demo` on an empty home, and again; beside it `dvc repro`, the same work for one moment without Airflow."""
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for row in ("make demo, empty home", "make demo, again"):
            measured[row] = [_timed(partial(_run, [sys.executable, "-m", "stack", "demo"], home))]
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "project"
        subprocess.run(["git", "clone", "-q", str(PROJECT), str(copy)], check=True)
        repro = partial(_run, [sys.executable, "-m", "dvc", "repro"], str(copy / ".leeway"), copy)
        measured["dvc repro, empty lake, one moment (peer)"] = [_timed(repro)]
        measured["dvc repro, again"] = [_timed(repro)]
    return measured


def _interleaved(rows: Mapping[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Seconds of each row: A B A B ..., after one of each that does not count."""
    for call in rows.values():
        call()
    measured: dict[str, list[float]] = {row: [] for row in rows}
    for _ in range(runs):
        for row, call in rows.items():
            measured[row].append(_timed(call))
    return measured


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _run(command: list[str], home: str, cwd: Path = PROJECT) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "LEEWAY_HOME": home,
        "AIRFLOW_HOME": f"{home}/airflow",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command[:6])} ended with {done.returncode}: {done.stderr[-2_000:]}")


def _lake(write: Callable[[str, int], None]) -> Callable[[], None]:
    def call() -> None:
        with tempfile.TemporaryDirectory() as home, ProcessPoolExecutor(8) as pool:
            list(pool.map(partial(write, home), range(60)))

    return call


def _rows(number: int):  # type: ignore[no-untyped-def]
    import pyarrow as pa

    return pa.table({"date": [FIRST + number * DAY] * 1_000, "x": list(range(1_000))})


def _write(home: str, number: int) -> None:
    os.environ["LEEWAY_HOME"] = home
    from pipelines.lake import Lake
    from pipelines.settings import settings

    settings.cache_clear()
    Lake.open().write_partition("bench", FIRST + number * DAY, _rows(number))


def _bare(home: str, number: int) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import EqualTo

    day = FIRST + number * DAY
    for attempt in range(200):
        try:
            catalog = SqlCatalog("bare", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
            catalog.create_namespace_if_not_exists("bench")
            table = catalog.create_table_if_not_exists("bench.bench", _rows(number).schema)
            table.overwrite(_rows(number), overwrite_filter=EqualTo("date", day.isoformat()))
            return
        except Exception:  # whatever a lost race raises
            time.sleep(0.02 * (attempt + 1))
    raise RuntimeError("no commit in 200 attempts")
