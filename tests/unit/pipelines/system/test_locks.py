"""Locks that the kernel releases."""

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
HOLD = """
import pathlib, time
from pipelines.system.locks import hold_lock

with hold_lock(pathlib.Path("l"), "busy"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_holds_and_the_other_is_told_or_waits(tmp_path: Path) -> None:
    path, order = tmp_path / "deep/lock", list[str]()

    def second() -> None:
        with hold_lock(path):
            order.append("second")

    waiting = threading.Thread(target=second)
    with hold_lock(path, "busy in the kitchen"):
        with pytest.raises(ConflictError, match="the kitchen"), hold_lock(path, "busy in the kitchen"):
            pass
        waiting.start()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_lock_that_its_holder_removed_is_made_again(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "lock", list[int](), list[int]()

    def work() -> None:
        for _ in range(50):
            with hold_lock(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                path.unlink()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 400
    assert max(most) == 1


def test_death_releases_it(tmp_path: Path, commands: Any, until: Callable[..., Any]) -> None:
    child = commands.start(sys.executable, "-c", HOLD)
    assert child.stdout.readline() == "held\n"
    with pytest.raises(ConflictError), hold_lock(tmp_path / "l", "busy"):
        pass
    os.killpg(child.pid, signal.SIGKILL)
    with hold_lock(tmp_path / "l"):
        assert child.wait() == -signal.SIGKILL
