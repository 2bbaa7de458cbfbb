"""Record the CPU and memory of the instances of all endpoints as CloudWatch metrics."""

import logging
import threading
from collections.abc import Callable, Iterable

from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.metrics import EndpointMetrics

log = logging.getLogger(__name__)

SAMPLE_S = 5.0
"""Seconds between two samples of an instance."""


class UtilizationRecorder:
    """Measures the instances of endpoints in a thread of its own.

    Args:
        metrics: Stores the values.
        iterate_endpoints: Yields the endpoints.
    """

    def __init__(self, metrics: EndpointMetrics, iterate_endpoints: Callable[[], Iterable[Endpoint]]) -> None:
        self._metrics, self._iterate_endpoints = metrics, iterate_endpoints
        self._stop_event = threading.Event()
        self._thread = threading.Thread(target=self._run, name="utilization", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def close(self) -> None:
        """Stop measuring."""
        self._stop_event.set()

    def _run(self) -> None:
        while not self._stop_event.wait(SAMPLE_S):
            for endpoint in self._iterate_endpoints():
                try:
                    self._measure(endpoint)
                except Exception:  # the other endpoints must be measured
                    log.exception("endpoint %s: internal error", endpoint.name)

    def _measure(self, endpoint: Endpoint) -> None:
        for fleet in endpoint.list_fleets():
            for instance in fleet.list_instances():
                if usage := instance.measure_usage():
                    self._metrics.record_usage(endpoint.owner, endpoint.name, instance.variant.name, usage)
