"""Runs benchmarks and writes benchmarks/results/NAME.json: the command, the date, the machine, medians and spread."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import (
    backtest,
    cases,
    decide,
    drift,
    drydock,
    gates,
    interruptions,
    preprocess,
    profile,
    publish,
    repro,
    sources,
    validation,
    year,
)

RESULTS = Path(__file__).parent / "results"
CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "parse": cases.parse,
    "lake": cases.lake,
    "steps": cases.steps,
    "demo": cases.demo,
    "drydock": drydock.run,
    "interruptions": interruptions.run,
    "sources": sources.run,
    "validation": validation.run,
    "publish": publish.run,
    "preprocess": preprocess.run,
    "repro": repro.run,
    "year": year.calmly,
    "storm": year.stormily,
    "backtest": backtest.run,
    "gates": gates.run,
    "drift": drift.run,
    "decide": decide.run,
    "profile": profile.run,
}


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(CASES)}; all where none.")] = None,
) -> None:
    """Measures, prints, and keeps the newest result of each."""
    unknown = sorted(set(names or ()) - set(CASES))
    if unknown:
        sys.stderr.write(f"error: no benchmark {', '.join(unknown)}. Known: {', '.join(CASES)}.\n")
        raise SystemExit(2)
    for name in names or CASES:
        load = os.getloadavg()[0]
        measured = CASES[name]()
        report = _report(name, measured, load)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        for name_of, told in report.get("facts", {}).items():
            print(f"{name:6} {name_of:60} {told}")
        for row, told in report["seconds"].items():
            spread = f"{told['min']:.2f} to {told['max']:.2f}, {told['runs']} runs"
            print(f"{name:6} {row:60} median {told['median']:8.2f} s  ({spread})")


def _report(name: str, measured: dict[str, Any], load: float) -> dict[str, Any]:
    """`measured` is rows of seconds, or those as "seconds" with "facts" beside them."""
    facts = {"facts": measured["facts"]} if "facts" in measured else {}
    rows: dict[str, list[float]] = measured.get("seconds", measured)
    return {
        "command": f"python -m benchmarks {name}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        **facts,
        "seconds": {row: _spread(values) for row, values in rows.items()},
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
        "runs": len(values),
    }


if __name__ == "__main__":
    typer.run(main)
