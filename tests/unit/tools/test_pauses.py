"""Test that a run whose tests failed while the machine was paused says so, and that every other failure stays one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.pauses import EXIT_CODE, FAILED_FILES

TOOLS = Path(__file__).parents[2] / "tools"
CONFTEST = """
from pauses import PausePlugin

def pytest_configure(config):
    config.pluginmanager.register(PausePlugin(min_pause_s=0.5))
"""
PAUSE = """
    subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1.5)
"""
TESTS = """
import os, signal, subprocess, time

def test_a():
    {pause}
    assert {passes}
"""


@pytest.mark.parametrize(
    ("pause", "passes", "exit_code", "files"),
    [(PAUSE, False, EXIT_CODE, "test_a.py\n"), ("", False, 1, None), (PAUSE, True, 0, None)],
)
def test_failures_of_a_paused_run(tmp_path: Path, pause: str, passes: bool, exit_code: int, files: str | None) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_a.py").write_text(TESTS.format(pause=pause.strip(), passes=passes))
    (tmp_path / "test_b.py").write_text("def test_b(): pass")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TOOLS), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == exit_code, run.stdout + run.stderr
    assert ("The machine was paused during this run: " in run.stdout) == bool(pause)
    path = tmp_path / FAILED_FILES
    assert (path.read_text() if path.exists() else None) == files
