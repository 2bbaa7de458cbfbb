"""Wait for a condition. All tests that poll use this function."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
SLOW_MACHINE_FACTOR = 3
"""How much slower than a quiet machine a machine may be. Only a test that fails waits longer for that."""


def wait_until(
    condition: Callable[[], Value],
    timeout_s: float = 60.0,
    max_pause_s: float = 0.3,
    reason: str = "the condition is true",
) -> Value:
    """Wait until `condition()` is true, and return what it returned.

    Args:
        condition: called repeatedly. An error that it raises ends the wait.
        timeout_s: longest wait on a quiet machine, in seconds; SLOW_MACHINE_FACTOR times that on any machine.
        max_pause_s: longest pause between two calls, in seconds. The first pauses are short.
        reason: the condition in words, for the error message.

    Raises:
        AssertionError: the condition did not become true in that time.
    """
    timeout_s *= SLOW_MACHINE_FACTOR
    deadline, pause_s = time.monotonic() + timeout_s, 0.01
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timed out after {timeout_s:g} s of waiting until {reason}"
        time.sleep(min(pause_s, max_pause_s))
        pause_s *= 1.5  # a loop without pauses would take a core from the process that it waits for
    return value
