"""Run benchmarks, and write benchmarks/results/NAME.json: command, commit, date, machine, medians and spread."""

from __future__ import annotations

import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import (
    backtest,
    cases,
    completeness,
    drydock,
    memory,
    page,
    partitions,
    preprocess,
    profile,
    publish,
    repro,
    sources,
    validation,
    year,
)
from benchmarks.costs import jumps, real_trainings
from benchmarks.decisions import (
    ab,
    alarms,
    correlated_days,
    coverage,
    decide,
    drift,
    gates,
    losses,
    multiclass,
    planner,
    regression,
    unlabelled,
)
from benchmarks.serving import cold_start, release
from benchmarks.serving import run as serving
from benchmarks.spot import cheap_hours, hosts, interruptions
from benchmarks.training import language_model, loader, torch_hosts, tuning

RESULTS = Path(__file__).parent / "results"
BENCHMARKS: dict[str, Callable[[], dict[str, Any] | None]] = {
    "parse": cases.measure_parse,
    "lake": cases.measure_lake,
    "steps": cases.measure_steps,
    "demo": cases.measure_demo,
    "drydock": drydock.run,
    "interruptions": interruptions.run,
    "hosts": hosts.run,
    "cheap_hours": cheap_hours.run,
    "sources": sources.run,
    "validation": validation.run,
    "completeness": completeness.run,
    "partitions": partitions.run,
    "publish": publish.run,
    "memory": memory.run,
    "preprocess": preprocess.run,
    "repro": repro.run,
    "year": year.run,
    "year_with_kills": year.run_with_kills,
    "backtest": backtest.run,
    "gates": gates.run,
    "coverage": coverage.run,
    "regression": regression.run,
    "multiclass": multiclass.run,
    "correlated_days": correlated_days.run,
    "drift": drift.run,
    "losses": losses.run,
    "unlabelled": unlabelled.run,
    "alarms": alarms.run,
    "cost_jumps": jumps.run,
    "ab": ab.run,
    "decide": decide.run,
    "planner": planner.run,
    "planner_real": real_trainings.run,
    "profile": profile.run,
    "serving": serving.run,
    "release": release.run,
    "cold_start": cold_start.run,
    "page": page.run,
    "tuning": tuning.run,
    "loader": loader.run,
    "torch": torch_hosts.run,
    "language_model": language_model.run,
}
"""Maps each name to the function of the benchmark. If a benchmark cannot run here, it says why and returns None."""


def main(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Names of benchmarks: {', '.join(BENCHMARKS)}. Without names, all run.")
    ] = None,
) -> None:
    """Run benchmarks, print their results, and replace the stored results."""
    unknown_names = sorted(set(names or ()) - set(BENCHMARKS))
    if unknown_names:
        sys.stderr.write(
            f"error: there is no benchmark {', '.join(unknown_names)}. Choose from {', '.join(BENCHMARKS)}.\n"
        )
        raise SystemExit(2)
    # Python ends at once at SIGTERM. With an exception, a benchmark stops its servers first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for name in names or BENCHMARKS:
        load = os.getloadavg()[0]
        result = BENCHMARKS[name]()
        if result is None:
            continue
        report = _build_report(name, result, load)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        for fact, value in report.get("facts", {}).items():
            print(f"{name:6} {fact:60} {value}")
        for row, values in report["seconds"].items():
            spread = f"{values['min']:.2f} to {values['max']:.2f}, {values['runs']} runs"
            print(f"{name:6} {row:60} median {values['median']:8.2f} s  ({spread})")


def _build_report(name: str, result: dict[str, Any], load: float) -> dict[str, Any]:
    """Return the report of a benchmark.

    Args:
        name: the benchmark.
        result: either the seconds of each run, by row of the results; or a mapping that has these seconds as
            "seconds", and other values as "facts".
        load: the load average before the run.
    """
    facts = {"facts": result["facts"]} if "facts" in result else {}
    rows: dict[str, list[float]] = result.get("seconds", result)
    return {
        "command": _describe_command(name),
        "commit": _describe_commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        **facts,
        "seconds": {row: _summarize(values) for row, values in rows.items()},
    }


def _describe_command(name: str) -> str:
    """Return the command, with the LEEWAY_BENCH_ variables that change it, such as the number of days."""
    variables = sorted(item for item in os.environ.items() if item[0].startswith("LEEWAY_BENCH_"))
    return " ".join(
        [*(f"{variable}={shlex.quote(value)}" for variable, value in variables), "python -m benchmarks", name]
    )


def _describe_commit() -> str:
    """Return the commit of the measured code, with "-dirty" if a tracked file differs from it; "" without git.

    Files in benchmarks/results/ may differ: a run of several benchmarks replaces them one after the other.
    """
    commit = _run_git("rev-parse", "--short=12", "HEAD")
    changes = _run_git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)benchmarks/results")
    return f"{commit}-dirty" if changes else commit


def _run_git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False).stdout.strip()


def _summarize(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
        "runs": len(values),
    }


if __name__ == "__main__":
    typer.run(main)
