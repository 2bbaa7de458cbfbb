"""Record CloudWatch metrics of the instances of all endpoints: utilization of CPU, memory, disk and GPUs."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from drydock.endpoints.endpoint import Endpoint
from drydock.endpoints.metrics import EndpointMetrics
from drydock.host.host_metrics import SLOW_SAMPLE_S

log = logging.getLogger(__name__)

SAMPLE_S = 5.0
"""Seconds between two samples of an instance."""


class UtilizationRecorder:
    """Measures the instances of all endpoints regularly, in a thread of its own.

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
        next_slow_sample_at = 0.0
        while not self._stop_event.wait(SAMPLE_S):
            is_slow_sample = time.monotonic() >= next_slow_sample_at  # disk and GPUs take longer than CPU and memory
            for endpoint in self._iterate_endpoints():
                try:
                    self._measure(endpoint, is_slow_sample=is_slow_sample)
                except Exception:  # the other endpoints must be measured
                    log.exception("endpoint %s: internal error", endpoint.name)
            if is_slow_sample:
                next_slow_sample_at = time.monotonic() + SLOW_SAMPLE_S

    def _measure(self, endpoint: Endpoint, *, is_slow_sample: bool) -> None:
        for fleet in endpoint.list_fleets():
            for instance in fleet.list_instances():
                if values := instance.measure_usage(is_slow_sample=is_slow_sample):
                    self._metrics.record_usage(endpoint.owner, endpoint.name, instance.variant.name, values)
