"""Test which process receives SIGTERM and SIGINT, and when. Signals belong to processes, so these are real."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

STARTER = """
import subprocess, sys
from pipelines.container.signals import SignalRelay
command = [sys.executable, "-uc", sys.argv[1]]
with SignalRelay(float(sys.argv[2])) as relay, subprocess.Popen(command, text=True) as child:
    relay.attach(child)
    child.wait()
print("past it", child.returncode)
"""
SAVE_ON_SIGTERM = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:  # a signal just before a long sleep would be handled at its end
    time.sleep(0.1)
"""
IGNORE_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:  # a signal just before a long sleep would be handled at its end
    time.sleep(0.1)
"""


def start_process(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-uc", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def wait_until_ready(child: subprocess.Popen[str]) -> subprocess.Popen[str]:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_child_saves_and_then_the_signal_ends_the_parent(number: signal.Signals) -> None:
    process = wait_until_ready(start_process(STARTER, SAVE_ON_SIGTERM, "60"))
    process.send_signal(number)
    output, errors = process.communicate(timeout=180)
    assert output == "saved\n"
    assert process.returncode == -number, errors


def test_without_a_signal_the_child_ends_by_itself() -> None:
    process = start_process(STARTER, "print('done')", "60")
    assert process.communicate(timeout=180)[0] == "done\npast it 0\n"
    assert process.returncode == 0


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_period() -> None:
    process = wait_until_ready(start_process(STARTER, IGNORE_SIGTERM, "0.2"))
    process.terminate()
    process.communicate(timeout=180)
    assert process.returncode == -signal.SIGTERM


def test_a_child_that_ignores_signals_is_killed_at_the_second_ctrl_c() -> None:
    process = wait_until_ready(start_process(STARTER, IGNORE_SIGTERM, "600"))
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == -signal.SIGINT


WAIT_FOR_STOP = """
import signal, sys, time
from pipelines.container.signals import Stopped, StopSignal
stop = StopSignal()
try:
    if "defer" in sys.argv:
        stop.defer()
    print("ready", flush=True)
    while not stop.exit_code:
        time.sleep(0.01)
    print("safe point", flush=True)
    time.sleep(0.3)
except Stopped:
    print("at once", flush=True)
sys.exit(stop.exit_code)
"""


@pytest.mark.parametrize(("mode", "expected"), [("", "at once\n"), ("defer", "safe point\n")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_at_once_or_at_the_next_safe_point(mode: str, expected: str, number: signal.Signals) -> None:
    process = wait_until_ready(start_process(WAIT_FOR_STOP, mode))
    for _ in range(3):
        process.send_signal(number)
    output, errors = process.communicate(timeout=180)
    assert (output, errors) == (expected, "")
    assert process.returncode == 128 + number


def test_code_that_ignores_errors_does_not_ignore_a_stop() -> None:
    code = WAIT_FOR_STOP.replace(
        "    while not", "    try:\n        time.sleep(600)\n    except Exception:\n        pass\n    while not"
    )
    process = wait_until_ready(start_process(code))
    process.terminate()
    assert process.communicate(timeout=180)[0] == "at once\n"
