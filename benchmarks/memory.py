"""Measure the peak memory of ingest, validate (with publication and quarantine) and sync at 0.1, 1 and 10 M rows a day.

The step `sync` ingests by cursor: it reads the new and changed rows of a source without partitions. The rows and the 18
checks are those of the benchmarks `publish` and `validation`. Each step runs in its own process. No time is measured,
so other processes on the machine do not change the result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import publish, validation

SIZES = (100_000, 1_000_000, 10_000_000)
STEPS = {
    "ingest": "ingest",
    "validate": "validate, publish, quarantine",
    "second_ingest": "ingest again, one row in eight changed",
    "second_validate": "validate, publish, quarantine again, one row in eight changed",
    "sync": "sync",
    "second_sync": "sync again, one row in eight changed",
}
"""The steps of the benchmark `publish` that are measured, each with its label in the result."""


def run(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Run each step once at each size. Return the peak memory of each step under the key "facts"."""
    facts: dict[str, str] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as home:
            publish.write_files(Path(folder), size)
            validation.write_suite(Path(home))
            for step, label in STEPS.items():
                result = publish.run_child(step, Path(folder), home)
                facts[f"{label}, {size:,} rows"] = f"{result['peak_mb']:.0f} MB"
    return {"facts": facts, "seconds": {}}
