"""Who hears SIGTERM and SIGINT, and when. Real processes: signals are theirs."""

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
SAVES = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(600)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-uc", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def ready(child: subprocess.Popen[str]) -> subprocess.Popen[str]:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_child_saves_and_then_the_signal_is_ours(number: signal.Signals) -> None:
    process = ready(started(STARTER, SAVES, "60"))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == "saved\n"
    assert process.returncode == -number, err


def test_without_a_signal_nothing_is_different() -> None:
    process = started(STARTER, "print('done')", "60")
    assert process.communicate(timeout=60)[0] == "done\npast it 0\n"
    assert process.returncode == 0


def test_a_deaf_child_is_killed_after_the_grace() -> None:
    process = ready(started(STARTER, DEAF, "0.2"))
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_a_deaf_child_is_killed_at_the_second_ctrl_c() -> None:
    process = ready(started(STARTER, DEAF, "600"))
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT


HEARD = """
import signal, sys, time
from pipelines.container.signals import Stopped, StopSignal
stop = StopSignal()
try:
    if "defer" in sys.argv:
        stop.defer()
    print("ready", flush=True)
    while not stop.code:
        time.sleep(0.01)
    print("safe point", flush=True)
    time.sleep(0.3)
except Stopped:
    print("at once", flush=True)
sys.exit(stop.code)
"""


@pytest.mark.parametrize(("mode", "said"), [("", "at once\n"), ("defer", "safe point\n")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_at_once_or_at_the_next_safe_point(mode: str, said: str, number: signal.Signals) -> None:
    process = ready(started(HEARD, mode))
    for _ in range(3):
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (out, err) == (said, "")
    assert process.returncode == 128 + number


def test_what_swallows_errors_does_not_swallow_a_stop() -> None:
    code = HEARD.replace(
        "    while not", "    try:\n        time.sleep(600)\n    except Exception:\n        pass\n    while not"
    )
    process = ready(started(code))
    process.terminate()
    assert process.communicate(timeout=60)[0] == "at once\n"
