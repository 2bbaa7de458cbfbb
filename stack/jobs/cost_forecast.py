"""Forecast the cost of runs of a DAG before they start."""

from __future__ import annotations

import os
import subprocess
import sys

from stack.layout import Layout
from stack.services.environment import build_environment
from stack.services.record import Stack

TIMEOUT_S = 60


def forecast_cost(layout: Layout, stack: Stack, model: str, dag_id: str, runs: int) -> str:
    """Return the output of `python -m pipelines costs forecast` for a number of runs of a DAG.

    The result is empty if the command fails: nothing depends on the forecast.
    """
    command = [sys.executable, "-m", "pipelines", "costs", "forecast", "--dag", dag_id, "--runs", str(runs)]
    if (layout.project / "models").is_dir():
        command += ["--model", model]
    environment = build_environment(layout, stack, os.environ)
    try:
        result = subprocess.run(
            command, env=environment, cwd=layout.project, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
