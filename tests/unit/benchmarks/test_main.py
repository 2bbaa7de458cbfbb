"""Test the command line of the benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENDED_BENCHMARK = """
import contextlib, os, signal
from benchmarks import __main__ as program

def run():
    with contextlib.ExitStack() as servers:
        servers.callback(print, "the servers are stopped", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

program.BENCHMARKS["ended"] = run
try:
    program.main(["flying"])
except SystemExit as error:
    print(error.code)
program.main(["ended"])
"""


def test_benchmark_that_is_ended_stops_its_servers_and_an_unknown_one_is_refused():
    """Without a handler, SIGTERM ends Python at once, and the servers go on: the text would be missing."""
    process = subprocess.run([sys.executable, "-c", ENDED_BENCHMARK], cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (143, "2\nthe servers are stopped\n"), process.stderr
    check_refusal(process.stderr)


def check_refusal(text: str):
    assert text.startswith("error: there is no benchmark flying. Choose from ") and text.count("\n") == 1


@pytest.mark.soak
def test_unknown_benchmark_is_one_line():
    command = [sys.executable, "-m", "benchmarks", "flying"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2
    check_refusal(process.stderr)
