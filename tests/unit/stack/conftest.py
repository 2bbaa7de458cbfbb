"""Start small processes, and wait for what they do."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

Spawn = Callable[..., subprocess.Popen[bytes]]


def wait_for(condition: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait until `condition()` is true."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., None]:
    return wait_for


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """A function that starts `python -c CODE` with only these variables. All processes are killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, **environment: str) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"], **environment}
        child = subprocess.Popen(
            [sys.executable, "-c", f"{code}\nprint('ready', flush=True)\nimport time; time.sleep(600)"],
            env=env,
            stdout=subprocess.PIPE,
        )
        started.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
