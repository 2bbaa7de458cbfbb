"""Run `python -m pipelines` with the environment of a running stack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from stack.layout import Layout
from stack.services.environment import build_environment
from stack.services.record import Stack


def run_pipelines(
    layout: Layout, stack: Stack, arguments: Sequence[str], timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of `pipelines` in the project's folder, and return its exit code and its output.

    Args:
        layout: the folders of the stack.
        stack: the running stack.
        arguments: the command after `python -m pipelines`.
        timeout_s: longest time of the command, seconds; None: no limit.

    Raises:
        OSError: the command did not start.
        subprocess.TimeoutExpired: the command was ended, because it took longer than the limit.
    """
    return subprocess.run(
        [sys.executable, "-m", "pipelines", *arguments],
        env=build_environment(layout, stack, os.environ),
        cwd=layout.project,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def read_pipelines_output(layout: Layout, stack: Stack, arguments: Sequence[str], timeout_s: float) -> str:
    """Return the output of a command of `pipelines`; empty if the command fails.

    It is only for hints that a person reads: the caller must work without it, too.
    """
    try:
        result = run_pipelines(layout, stack, arguments, timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if result.returncode else result.stdout.strip()
