"""Move the traffic of an endpoint from old instances to new ones, in one or more steps. An alarm causes a rollback."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.traffic import TrafficPlan
from drydock.errors import DrydockError, RunFailed

log = logging.getLogger(__name__)

# Seconds between two checks of the alarms.
CHECK_S = 0.1

FindRollbackReason = Callable[[Sequence[str]], str | None]


class RollbackRequired(DrydockError):
    """An update must be rolled back: the old instances must serve again. The message is the FailureReason."""


class Deployment:
    """One update of an endpoint.

    Args:
        traffic: How the traffic moves.
        old_fleet: The instances that serve before the update.
        new_fleet: The instances that replace them; none is started yet.
        set_share: Sets the share of the requests that the new instances get.
        find_rollback_reason: Gets names of alarms, and returns why one of them requires a rollback; None if none does.
        close_event: Set when the server stops or the endpoint is deleted.
    """

    def __init__(
        self,
        traffic: TrafficPlan,
        old_fleet: Fleet,
        new_fleet: Fleet,
        set_share: Callable[[float], None],
        find_rollback_reason: FindRollbackReason,
        close_event: threading.Event,
    ) -> None:
        self._traffic, self._old_fleet, self._new_fleet = traffic, old_fleet, new_fleet
        self._set_share, self._find_rollback_reason, self._close_event = set_share, find_rollback_reason, close_event
        self._share = 0.0
        self._ends_at = time.monotonic() + traffic.timeout_s

    def run(self) -> None:
        """Move all traffic to the new instances. The old ones are stopped later, by the caller.

        Raises:
            RunFailed: A new instance did not start.
            RollbackRequired: An alarm is in the state ALARM or does not exist any more, the update took too long, the
                server stops, or the endpoint is deleted.
        """
        traffic = self._traffic
        if not traffic.is_rolling:
            self._new_fleet.scale(starts_serverless=True)
        for share in traffic.shares:
            if traffic.is_rolling:
                self._new_fleet.scale(share)
            self._move_traffic(share)
            self._watch_alarms(traffic.wait_s)
            if traffic.is_rolling and share < 1:
                self._old_fleet.scale(1 - share)
        self._watch_alarms(traffic.termination_wait_s)

    def roll_back(self) -> None:
        """Move all traffic back to the old instances. The new ones are stopped later, by the caller.

        In a rolling update, the old instances that were stopped are started again, batch by batch.
        """
        while self._traffic.is_rolling and self._share > 0 and not self._close_event.is_set():
            share = max(self._share - self._traffic.rollback_share, 0.0)
            try:
                self._old_fleet.scale(1 - share)
            except RunFailed as error:  # the old instances that run must serve all requests
                log.warning(
                    "rollback: an old instance does not start, so those that run get all requests: %s", error.reason
                )
                break
            self._move_traffic(share)
            if share > 0:
                self._new_fleet.scale(share)
        self._move_traffic(0.0)

    def _move_traffic(self, share: float) -> None:
        self._share = share
        self._set_share(share)
        config_name = self._new_fleet.config.config_name
        log.info("the instances of configuration %s get %.0f %% of the requests", config_name, 100 * share)

    def _watch_alarms(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while True:
            if reason := self._find_rollback_reason(self._traffic.alarms):
                raise RollbackRequired(f"The update was rolled back because {reason}.")
            if time.monotonic() >= self._ends_at:
                limit = self._traffic.timeout_s
                raise RollbackRequired(f"The update was rolled back because it took more than {limit:g} seconds.")
            if time.monotonic() >= deadline:
                return
            if self._close_event.wait(min(CHECK_S, max(deadline - time.monotonic(), 0.0))):
                raise RollbackRequired("drydock stopped, or the endpoint was deleted, during the update.")
