"""Wait for a condition. All tests that poll use this function."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value],
    timeout_s: float = 60.0,
    max_pause_s: float = 0.3,
    reason: str = "the condition is true",
) -> Value:
    """Wait until `condition()` is true, and return what it returned.

    Args:
        condition: called repeatedly. An error that it raises ends the wait.
        timeout_s: longest wait, in seconds. Only a failing test waits so long. Be generous: the machine may be loaded.
        max_pause_s: longest pause between two calls, in seconds. The first pauses are short.
        reason: the condition in words, for the error message.

    Raises:
        AssertionError: the condition did not become true in that time.
    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.01
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out after {timeout_s:g} s of waiting until {reason}"
        time.sleep(min(pause_s, max_pause_s))
        pause_s *= 1.5  # a loop without pauses would take a core from the process that it waits for
    return value
