"""Forecast the cost of runs of a DAG before they start."""

from __future__ import annotations

from stack.jobs.pipelines_command import read_pipelines_output
from stack.layout import Layout
from stack.services.record import Stack

TIMEOUT_S = 60
"""Longest time of the command, seconds."""


def forecast_cost(layout: Layout, stack: Stack, model: str, dag_id: str, runs: int) -> str:
    """Return the output of `python -m pipelines costs forecast` for a number of runs of a DAG.

    The result is empty if the command fails: nothing depends on the forecast.
    """
    arguments = ["costs", "forecast", "--dag", dag_id, "--runs", str(runs)]
    if (layout.project / "models").is_dir():
        arguments += ["--model", model]
    return read_pipelines_output(layout, stack, arguments, TIMEOUT_S)
