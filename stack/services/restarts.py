"""Decide how long after its end a service is started again, and when it is not started any more."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S, MAX_PAUSE_S = 0.5, 15.0
"""Seconds before the first restart, and the maximum. The pause doubles with each further restart."""
MAX_FAILED_STARTS = 5
"""Number of failed starts in a row after which a service is not restarted. In a failed start, the service ends by
itself before it answers."""
MAX_RESTARTS = 20
"""Largest number of restarts. The count starts again after the service has answered and run for `STABLE_S`."""
STABLE_S = 300.0
"""Seconds after which the earlier restarts of a service that answers are not counted any more."""


@dataclass
class RestartCounter:
    """Count the ends of one service, and decide whether and when the service starts again.

    Attributes:
        restarts: number of restarts since the service last answered and ran for `STABLE_S`.
        failed_starts: number of starts in a row after which the service ended by itself before it answered.
    """

    restarts: int = 0
    failed_starts: int = 0

    def record_end(self, exit_code: int, has_answered: bool, running_s: float) -> float | None:
        """Count an end of the service, and decide whether and when it starts again.

        Args:
            exit_code: the exit code, or -N if signal N ended the service.
            has_answered: whether the service had answered since its last start.
            running_s: seconds since its last start.

        Returns:
            the seconds to wait before the next start; None if the service must not start again.
        """
        if has_answered and running_s >= STABLE_S:
            self.restarts = 0
        # If a signal ended a service that was starting, the service itself may work: this is not a failed start.
        is_failed_start = exit_code >= 0 and not has_answered
        self.failed_starts = self.failed_starts + 1 if is_failed_start else 0
        if self.failed_starts >= MAX_FAILED_STARTS or self.restarts >= MAX_RESTARTS:
            return None
        self.restarts += 1
        return min(FIRST_PAUSE_S * 2.0 ** (self.restarts - 1), MAX_PAUSE_S)
