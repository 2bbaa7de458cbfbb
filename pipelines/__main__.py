"""Run a step: `python -m pipelines STEP`. `dvc repro`, the Airflow operators and people use this command.

A step takes a few seconds, mostly for imports. A year of days takes 730 steps: `ingest` and `validate` for each day.
Two things make the process faster: the garbage collector runs less often, and the interpreter does not free every
object at the end. Functions registered with `atexit` still run first.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

GC_THRESHOLD = 50_000
"""Number of new objects after which the garbage collector runs (Python's default: 700).

The imports make about 500,000 objects, and none of them can be freed.
"""
exit_code = 1
"""Exit code of the process; 1 until `main` has ended."""


def _exit_at_once() -> None:
    """End the process without the interpreter's clean-up; the operating system frees all memory at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


atexit.register(_exit_at_once)  # the function that is registered first is called last
gc.set_threshold(GC_THRESHOLD)

try:
    from pipelines.cli.app import main

    main()
    exit_code = 0
except ModuleNotFoundError as error:  # an import of the command line itself failed; `main` reports errors of a step
    if str(error.name).startswith("pipelines"):
        raise
    sys.stderr.write(f'error: the package {error.name} is not installed here: run `pip install "leeway[pipelines]"`.\n')
    exit_code = 2
except SystemExit as exit_request:
    exit_code = int(exit_request.code or 0) if not isinstance(exit_request.code, str) else 1
