"""Test which failed runs end with the exit code after which `make test` runs the failed files once more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.second_run import EXIT_CODE, FAILED_FILES, MAX_FILES, SecondRunPlugin

TOOLS = Path(__file__).parents[2] / "tools"
CONFTEST = """
from second_run import SecondRunPlugin

def pytest_configure(config):
    config.pluginmanager.register(SecondRunPlugin(min_pause_s={min_pause_s}))
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


REAL = [f"tests/integration/test_{number}.py" for number in range(MAX_FILES + 1)]


def run_failing_tests(folder: Path, files: list[str], pause: str = "", passes: bool = False) -> tuple[int, str]:
    """Run files with one test each. Return the exit code and the output."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    # A busy machine delays a tick by a second or two, which is no pause.
    (folder / "conftest.py").write_text(CONFTEST.format(min_pause_s=0.5 if pause else 30.0))
    (folder / "test_passes.py").write_text("def test_b(): pass")
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(TESTS.format(pause=pause.strip(), passes=passes))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode", "importlib"],
        cwd=folder,
        env={"PYTHONPATH": str(TOOLS), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    path = folder / FAILED_FILES
    assert (path.read_text().splitlines() if path.exists() else []) == (files if run.returncode == EXIT_CODE else [])
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("pause", "passes", "exit_code"),
    [(PAUSE, False, EXIT_CODE), ("", False, 1), pytest.param(PAUSE, True, 0, marks=pytest.mark.soak)],
)
def test_failures_of_a_paused_run(tmp_path: Path, pause: str, passes: bool, exit_code: int) -> None:
    code, output = run_failing_tests(tmp_path, ["test_a.py"], pause, passes)
    assert code == exit_code, output
    assert ("The machine was paused during this run: " in output) == bool(pause)


@pytest.mark.parametrize(
    ("files", "exit_code"),
    [
        (REAL[:MAX_FILES], EXIT_CODE),
        pytest.param(["tests/e2e/test_demo.py"], EXIT_CODE, marks=pytest.mark.soak),
        (REAL, 1),  # too many
        ([*REAL[:1], "tests/unit/test_a.py"], 1),  # a unit test depends on no other process
    ],
)
def test_failures_without_a_pause(tmp_path: Path, files: list[str], exit_code: int) -> None:
    code, output = run_failing_tests(tmp_path, files)
    assert code == exit_code, output


@pytest.mark.parametrize(("files", "exit_code"), [(set(), 1), ({REAL[0]}, EXIT_CODE)])
def test_failure_without_a_failed_test_does_not_run_the_whole_suite_again(
    tmp_path: Path, files: set[str], exit_code: int
) -> None:
    plugin = SecondRunPlugin()
    plugin.failed_files = files
    session: Any = SimpleNamespace(exitstatus=1, config=SimpleNamespace(rootpath=tmp_path))
    plugin.pytest_sessionfinish(session, pytest.ExitCode.TESTS_FAILED)
    assert session.exitstatus == exit_code
    assert (tmp_path / FAILED_FILES).exists() == bool(files)


def run_make_test(folder: Path, first_code: int, second_code: int) -> tuple[int, str]:
    """Run `make test` with a program in place of pytest, which ends with one code and then with another."""
    program = folder / "pytest"
    program.write_text(
        f'#!/bin/sh\n[ -e ran ] && {{ echo second: "$@"; exit {second_code}; }}\ntouch ran\nexit {first_code}\n'
    )
    program.chmod(0o755)
    (folder / FAILED_FILES).parent.mkdir(exist_ok=True)
    (folder / FAILED_FILES).write_text("tests/integration/test_0.py\n")
    command = ["make", "-f", str(TOOLS.parents[1] / "Makefile"), "test", "STAMP=", "UI_PACKAGES=", f"RUN={folder}"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("first_code", "second_code", "is_success", "has_second_run"),
    [(0, 1, True, False), (1, 0, False, False), (EXIT_CODE, 0, True, True), (EXIT_CODE, 1, False, True)],
)
def test_make_test(tmp_path: Path, first_code: int, second_code: int, is_success: bool, has_second_run: bool) -> None:
    code, output = run_make_test(tmp_path, first_code, second_code)
    assert (code == 0) == is_success, output
    assert ("second: -n 1 --dist loadfile @.leeway/failed-test-files" in output) == has_second_run
    named = "Passed only in the second run: tests/integration/test_0.py" in output
    assert named == (has_second_run and is_success)
