"""Ways to start small processes, and to wait for what they do."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

Spawn = Callable[..., subprocess.Popen[bytes]]


def wait_for(what: Callable[[], object], within_s: float = 30.0) -> None:
    """Returns as soon as `what()` is true."""
    ends = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.02)


@pytest.fixture(name="wait_for")
def _wait_for() -> Callable[..., None]:
    return wait_for


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts `python -c CODE` with just these variables; all are dead after the test."""
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
