"""Decide how long a service that ended waits for its next start, and when the stack gives it up."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 15.0
"""Seconds before the first restart. Each further restart doubles them, up to the second number."""
MAX_FAILED_STARTS = 5
"""How often in a row a service may end by itself before it has answered. Such a service cannot work."""
MAX_RESTARTS = 20
"""How often a service is restarted, unless it works for `CALM_S` between two ends."""
CALM_S = 300.0
"""A service that has worked for so many seconds starts again as if it had never ended."""


@dataclass
class RestartCounter:
    """The ends of one service."""

    restarts: int = 0
    failed_starts: int = 0

    def record_end(self, exit_code: int, has_answered: bool, lived_s: float) -> float | None:
        """Count an end of the service.

        Args:
            exit_code: the exit code; the negative number of a signal where one ended the service.
            has_answered: whether the service had answered since its last start.
            lived_s: seconds since its last start.

        Returns:
            the seconds to wait before the next start; None if the service must not start again.
        """
        if has_answered and lived_s >= CALM_S:
            self.restarts = 0
        # Who sends SIGKILL to a service that is starting says nothing about what the service can do.
        is_failed_start = exit_code >= 0 and not has_answered
        self.failed_starts = self.failed_starts + 1 if is_failed_start else 0
        if self.failed_starts >= MAX_FAILED_STARTS or self.restarts >= MAX_RESTARTS:
            return None
        self.restarts += 1
        return min(FIRST_PAUSE_S * 2.0 ** (self.restarts - 1), MAX_PAUSE_S)
