"""Test the command line of the benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
program.main(["ended"])
"""


def test_benchmark_that_is_ended_stops_its_servers():
    """Without a handler, SIGTERM ends Python at once, and the servers go on: the text would be missing."""
    process = subprocess.run([sys.executable, "-c", ENDED_BENCHMARK], cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (143, "the servers are stopped\n"), process.stderr


def test_unknown_benchmark_is_one_line():
    command = [sys.executable, "-m", "benchmarks", "flying"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 2 and process.stderr.startswith("error: there is no benchmark flying. Choose from ")
    assert process.stderr.count("\n") == 1
