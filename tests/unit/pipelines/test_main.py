"""The process's end: nothing that was written or registered is lost by leaving without the interpreter's own end."""

import subprocess
import sys

import pytest

BEFORE = """
import runpy, sys, types
stand_in = types.ModuleType("pipelines.cli.app")
exec(sys.argv.pop(1), stand_in.__dict__)
sys.modules["pipelines.cli.app"] = stand_in
runpy.run_module("pipelines", run_name="__main__")
"""


def left(main: str) -> subprocess.CompletedProcess[str]:
    """The process `python -m pipelines` whose `main` is of the text."""
    return subprocess.run([sys.executable, "-c", BEFORE, main], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        *(("pass", 0), ("raise SystemExit", 0), ("raise SystemExit(2)", 2), ("raise SystemExit(75)", 75)),
        *(("raise SystemExit('no number')", 1), ("raise RuntimeError('a bug')", 1), ("raise KeyboardInterrupt", 1)),
    ],
)
def test_the_code_is_what_main_ended_with(ends: str, code: int) -> None:
    assert left(f"def main(): {ends}").returncode == code


def test_a_bug_shows_its_traceback() -> None:
    assert "RuntimeError: a bug" in left("def main(): raise RuntimeError('a bug')").stderr


def test_what_was_written_is_there() -> None:
    main = "def main():\n sys.stdout.write('x' * 200_000)\n sys.stderr.write('last')"
    ended = left(f"import sys\n{main}")
    assert (len(ended.stdout), ended.stderr) == (200_000, "last")


def test_what_was_registered_and_threads_end_first() -> None:
    main = """
import atexit, threading, time
def slowly():
    time.sleep(0.2)
    print("the thread")
def main():
    atexit.register(print, "registered")
    threading.Thread(target=slowly).start()
"""
    assert left(main).stdout.split("\n") == ["the thread", "registered", ""]


def test_only_what_is_named_is_loaded() -> None:
    asked = "import sys; from pipelines.cli.app import build_app; build_app('gate'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert {"pipelines.steps.gate"} == {*loaded.stdout.split()} & {
        *("pipelines.steps.gate", "pipelines.steps.train", "pipelines.cli.costs", "pandas", "ibis")
    }
