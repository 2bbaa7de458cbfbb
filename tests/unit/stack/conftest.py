"""Start small processes, and wait for conditions."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.tools.waiting import wait_until

Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def wait_for() -> Callable[..., None]:
    return partial(wait_until, timeout_s=30.0, max_pause_s=0.02)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Return the function that starts `python -c CODE` with only the given variables.

    The process is killed after the test.
    """
    children: list[subprocess.Popen[bytes]] = []

    def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"], **environment}
        code = f"{code}\nprint('ready', flush=True)\nimport time; time.sleep(600)"
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=env,
            stdout=subprocess.PIPE,
        )
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
