"""Run a step in a process that kills itself, as `kill -9` would, at one of the moments of its work.

The moments are the calls of Python functions of `pipelines` and `pyiceberg` while the step runs. The same number gives
nearly the same moment, however busy the machine is.
"""

from __future__ import annotations

import random
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

CODE = """
import os, signal, sys
from pipelines.cli import app
from pipelines.ingestion import changes
from pipelines.lake import differences, new_files
from pipelines.steps import {step} as step
from pipelines.validation import quarantine
from pipelines.validation.evaluators import rows

# A small day gives many batches, groups and files.
changes.BATCH_ROWS = differences.BATCH_ROWS = quarantine.BATCH_ROWS = rows.BATCH_ROWS = 100
new_files.GROUP_ROWS, new_files.FILE_BYTES = 150, 10_000
calls, run = 0, step.run

def count_call(frame, event, argument):
    global calls
    if event == "call" and frame.f_globals.get("__name__", "").startswith(("pipelines.", "pyiceberg.")):
        calls += 1
        if calls == {kill_at}:
            os.kill(os.getpid(), signal.SIGKILL)

def run_counted(spec):
    sys.setprofile(count_call)
    try:
        return run(spec)
    finally:
        sys.setprofile(None)
        sys.stderr.write(f"calls: {{calls}}\\n")

step.run = run_counted
app.main()
"""


def run_until(commands: Any, kill_at: int, step: str, *options: str, datasets: str = "") -> Any:
    """Run a step until the call with the number `kill_at`; 0: to its end. Return the process, which has ended."""
    variables = {"LEEWAY_DATASETS": datasets} if datasets else {}
    return commands.run(sys.executable, "-c", CODE.format(step=step, kill_at=kill_at), step, *options, env=variables)


def draw_moments(whole_run: Any, count: int, seed: int) -> Iterator[int]:
    """Yield random numbers of calls: one from each of `count` equal parts of the calls of a run that was not killed.

    The last tenth of the calls is left out, since the number of calls varies by a few percent from run to run.
    """
    match = re.search(r"^calls: (\d+)$", whole_run.err, re.MULTILINE)
    assert whole_run.code == 0 and match, whole_run.err
    calls, randomness = int(match[1]) * 9 // 10, random.Random(seed)
    assert calls > 100 * count
    for part in range(count):
        yield 1 + calls * part // count + randomness.randrange(calls // count)


def is_killed(process: Any) -> bool:
    """Return whether the process was killed."""
    return bool(process.code == -signal.SIGKILL)
