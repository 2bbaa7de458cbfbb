"""Find out whether a packaged model can be loaded without the project's code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from pipelines.escaping import escape
from pipelines.registry.package import load_script

MAX_LOAD_S = 600
"""Seconds after which the process that loads the package and scores rows with it is stopped."""


def find_load_problem(package: Path, rows: pd.DataFrame) -> str:
    """Load the package and score rows with it in a process that can import none of the project's code.

    Args:
        package: folder of the package. Its files must be checked already, because loading runs its code.
        rows: feature rows.

    Returns:
        The reason why loading or scoring failed, in one line; empty if both worked.
    """
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        file = Path(folder) / "rows.parquet"
        rows.to_parquet(file)
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, load_script.__file__, str(package.absolute()), str(file)]
        try:
            process = subprocess.run(
                command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=MAX_LOAD_S
            )
        except subprocess.TimeoutExpired:
            return f"loading and scoring took more than {MAX_LOAD_S} s"
    lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    if not process.returncode:
        return ""
    return escape(lines[-1]) if lines else f"the process ended with exit code {process.returncode}"
