"""Wait for a condition: the one helper of all tests that poll."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(
    condition: Callable[[], Value], within_s: float = 60.0, most_s: float = 0.3, reason: str = "the condition is true"
) -> Value:
    """Wait until `condition()` is true, and return what it returned.

    Args:
        condition: called repeatedly. An error that it raises ends the wait.
        within_s: seconds to wait at most. Only a failing test waits so long: be generous, the machine may be loaded.
        most_s: longest pause between two calls, in seconds. The first pauses are short.
        reason: what is waited for, for the message.

    Raises:
        AssertionError: the condition did not become true in that time.
    """
    deadline, pause_s = time.monotonic() + within_s, 0.01
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {reason}"
        time.sleep(min(pause_s, most_s))
        pause_s *= 1.5  # a loop without pauses would take a core from the process that it waits for
    return value
