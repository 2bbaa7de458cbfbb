"""Load Application Auto Scaling at its first use, because its import takes long, and evaluate its policies."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from drydock.autoscaling.targets import iterate_owners
from drydock.endpoints.registry import Endpoints

if TYPE_CHECKING:
    from drydock.autoscaling.scaler import Scaler

SERVICE = "applicationautoscaling"
"""moto's name of the service."""


class Autoscaling:
    """The Application Auto Scaling of one server, and the thread that evaluates its policies.

    Args:
        endpoints: The endpoints of all accounts and regions.
        period_s: Seconds of a period of target tracking (AWS: 60).
    """

    def __init__(self, endpoints: Endpoints, period_s: float) -> None:
        self._endpoints, self._period_s = endpoints, period_s
        self._lock = threading.Lock()
        self._scaler: Scaler | None = None

    def start(self) -> None:
        """Start to evaluate the stored policies. Without a target, the first call of `load` starts the evaluation."""
        if any(iterate_owners(self._endpoints.store)):
            self.load()

    def close(self) -> None:
        """Stop evaluating, without waiting for an evaluation that is in progress."""
        with self._lock:
            if self._scaler:
                self._scaler.close()

    def load(self) -> None:
        """Import and install the backend, load what is stored, and start the thread. Idempotent."""
        with self._lock:
            if self._scaler:
                return
            from drydock.autoscaling import backend
            from drydock.autoscaling.scaler import Scaler

            backend.install(self._endpoints)
            self._scaler = Scaler(self._period_s)
            self._scaler.start()
