"""Test the template of torch where torch is not installed."""

import os
import subprocess
import sys
from pathlib import Path

from tests.tools.torch_jobs import ROOT, SCRIPT


def test_without_torch_the_script_ends_with_one_line(tmp_path: Path) -> None:
    """Python without site-packages has neither torch nor safetensors."""
    (tmp_path / "output").mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SAGEMAKER_BASE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-S", str(SCRIPT)], env=env, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("torch and safetensors cannot be imported by ") and "pip install 'leeway[torch]'" in line
    assert (tmp_path / "output/failure").read_text() == line
