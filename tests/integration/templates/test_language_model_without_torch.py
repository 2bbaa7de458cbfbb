"""Test the template for language models where torch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_without_torch_the_script_ends_with_one_line(tmp_path: Path) -> None:
    """Python without site-packages has no torch. Nothing is written but the reason."""
    command = [sys.executable, "-S", str(ROOT / "templates/language_model/train.py")]
    environment = {"SAGEMAKER_BASE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    hint = "use a PyTorch image with this script's requirements.txt, or pip install 'leeway[language]'."
    line = f"No module named 'torch': {hint}"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"{line}\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "output/failure"]
    assert (tmp_path / "output/failure").read_text() == line
