"""Test the code of the packaged model, which MLflow runs at each load."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_model_prints_nothing() -> None:
    process = subprocess.run(
        [sys.executable, "-c", "import pipelines.defaults.serving"], capture_output=True, text=True, check=True
    )
    assert (process.stdout, process.stderr) == ("", "")
