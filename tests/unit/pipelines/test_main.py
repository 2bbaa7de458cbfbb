"""Test the end of the process: it skips the interpreter's clean-up, and no output or registered function is lost."""

import subprocess
import sys

import pytest

RUNNER = """
import runpy, sys, types
stand_in = types.ModuleType("pipelines.cli.app")
exec(sys.argv.pop(1), stand_in.__dict__)
sys.modules["pipelines.cli.app"] = stand_in
runpy.run_module("pipelines", run_name="__main__")
"""


def run_main(main: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m pipelines` with this text as the module that defines `main`."""
    return subprocess.run(
        [sys.executable, "-c", RUNNER, main], capture_output=True, text=True, timeout=180, check=False
    )


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        *(("pass", 0), ("raise SystemExit", 0), ("raise SystemExit(2)", 2), ("raise SystemExit(75)", 75)),
        *(("raise SystemExit('no number')", 1), ("raise RuntimeError('a bug')", 1), ("raise KeyboardInterrupt", 1)),
    ],
)
def test_the_exit_code_is_that_of_main(statement: str, code: int) -> None:
    assert run_main(f"def main(): {statement}").returncode == code


def test_a_bug_shows_its_traceback() -> None:
    assert "RuntimeError: a bug" in run_main("def main(): raise RuntimeError('a bug')").stderr


def test_all_output_is_written() -> None:
    main = "def main():\n sys.stdout.write('x' * 200_000)\n sys.stderr.write('last')"
    process = run_main(f"import sys\n{main}")
    assert (len(process.stdout), process.stderr) == (200_000, "last")


def test_threads_and_registered_functions_end_before_the_process() -> None:
    main = """
import atexit, threading, time
def print_later():
    time.sleep(0.2)
    print("the thread")
def main():
    atexit.register(print, "registered")
    threading.Thread(target=print_later).start()
"""
    assert run_main(main).stdout.split("\n") == ["the thread", "registered", ""]


def test_only_the_requested_step_is_loaded() -> None:
    code = "import sys; from pipelines.cli.app import build_app; build_app('gate'); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert {"pipelines.steps.gate"} == {*process.stdout.split()} & {
        *("pipelines.steps.gate", "pipelines.steps.train", "pipelines.cli.costs", "pandas", "ibis")
    }
