"""Test locks between threads and processes."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import ConflictError
from pipelines.system.locks import hold_lock

ROOT = Path(__file__).parents[4]
HOLD_SCRIPT = """
import pathlib, time
from pipelines.system.locks import hold_lock

with hold_lock(pathlib.Path("l"), "busy"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_lock_that_is_held_is_an_error_or_a_wait(tmp_path: Path) -> None:
    path, order = tmp_path / "deep/lock", list[str]()

    def wait_for_lock() -> None:
        with hold_lock(path):
            order.append("second")

    thread = threading.Thread(target=wait_for_lock)
    with hold_lock(path, "busy with another run"):
        with pytest.raises(ConflictError, match="another run"), hold_lock(path, "busy with another run"):
            pass
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_file_that_its_holder_removed_is_created_again(tmp_path: Path) -> None:
    path, holders, counts = tmp_path / "lock", list[int](), list[int]()

    def use_lock() -> None:
        for _ in range(50):
            with hold_lock(path):
                holders.append(1)
                counts.append(len(holders))
                holders.pop()
                path.unlink()

    threads = [threading.Thread(target=use_lock) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 400
    assert max(counts) == 1


def test_the_death_of_a_process_releases_its_lock(tmp_path: Path, commands: Any, until: Callable[..., Any]) -> None:
    child = commands.start(sys.executable, "-c", HOLD_SCRIPT)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(ConflictError), hold_lock(tmp_path / "l", "busy"):
        pass
    os.killpg(child.pid, signal.SIGKILL)
    with hold_lock(tmp_path / "l"):
        assert child.wait() == -signal.SIGKILL
