"""What a DAG's runs may cost, said before they start."""

from __future__ import annotations

import os
import subprocess
import sys

from stack.layout import Layout
from stack.services import environment
from stack.services.record import Stack

TIMEOUT_S = 60


def forecast(layout: Layout, stack: Stack, dag_id: str, runs: int) -> str:
    """The lines of `python -m pipelines costs forecast`; empty where it fails: nothing depends on them."""
    command = [sys.executable, "-m", "pipelines", "costs", "forecast", "--dag", dag_id, "--runs", str(runs)]
    own = environment.build(layout, stack, os.environ)
    try:
        done = subprocess.run(
            command, env=own, cwd=layout.project, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
