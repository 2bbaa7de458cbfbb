"""The CloudWatch metrics of endpoints: one datum a minute for each metric of a variant, in moto and on disk."""

import logging
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import utcnow

from drydock.cloudwatch.statistics import HistogramDatum
from drydock.cloudwatch.stored_metrics import StoredMetrics
from drydock.resources import Owner
from drydock.store import Store

log = logging.getLogger(__name__)

FLUSH_S, COMPACT_S = 2.0, 3_600.0
"""Seconds between two writes of the metrics to disk, and between two merges of the older ones."""
NAMESPACE, INSTANCES_NAMESPACE = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
# The unit of each metric, by the metric's name.
UNITS = {
    "Invocations": "None",
    "InvocationsPerInstance": "None",
    "Invocation4XXErrors": "None",
    "Invocation5XXErrors": "None",
    "ModelLatency": "Microseconds",
    "OverheadLatency": "Microseconds",
    "ModelSetupTime": "Microseconds",
    "ApproximateBacklogSize": "Count",
    "ApproximateBacklogSizePerInstance": "Count",
    "HasBacklogWithoutCapacity": "Count",
    "InvocationsProcessed": "Count",
    "InvocationFailures": "Count",
    "ExpiredRequests": "Count",
    "TimeInBacklog": "Milliseconds",
    "TotalProcessingTime": "Milliseconds",
    "CPUUtilization": "Percent",
    "MemoryUtilization": "Percent",
    "DiskUtilization": "Percent",
    "GPUUtilization": "Percent",
    "GPUMemoryUtilization": "Percent",
}
INSTANCE_METRICS = tuple(name for name, unit in UNITS.items() if unit == "Percent")

Key = tuple[Owner, str, str, str]
"""Account and region of an endpoint, its name, a variant ("" for none), and a metric."""


class EndpointMetrics:
    """Records values of the endpoints' metrics. Safe for several threads.

    A kill -9 loses the values of the last two seconds.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._lock, self._stored_metrics = threading.Lock(), StoredMetrics(store)
        self._data: dict[Key, HistogramDatum] = {}
        self._changed_data: dict[tuple[Key, datetime], HistogramDatum] = {}
        self._stop_event, self._compacted_at = threading.Event(), -math.inf
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._counts: Counter[tuple[Owner, str, str]] = Counter()
        self.timeout_count = 0
        """How many requests the models did not answer in time, since the server's start."""

    def start(self) -> None:
        """Start to store the metrics, every two seconds."""
        self._thread.start()

    def close(self) -> None:
        """Store the last values, and store no more."""
        self._stop_event.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop_event.wait(FLUSH_S):
            self._store()
        self._store()

    def _store(self) -> None:
        """Store what has changed since the last call. If the disk is full, the metrics are only in memory."""
        with self._lock:
            changed_data, self._changed_data = self._changed_data, {}
            rows = [self._stored_metrics.build_row(key[0], datum) for (key, _), datum in changed_data.items()]
        try:
            if rows:
                self._stored_metrics.write(rows)
            if time.monotonic() - self._compacted_at > COMPACT_S:
                self._compacted_at = time.monotonic()
                self._stored_metrics.compact(utcnow())
        except sqlite3.Error as error:
            log.warning("cannot store the metrics of endpoints: %s", error)

    def record_invocation(
        self,
        owner: Owner,
        endpoint: str,
        variant: str,
        *,
        status: int,
        model_latency_s: float,
        overhead_s: float,
        instances: int,
    ) -> None:
        """Count one invocation.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            variant: VariantName.
            status: HTTP status of the model's answer; 0 if it did not answer in time.
            model_latency_s: Seconds until the model answered.
            overhead_s: Seconds of the whole invocation, minus `model_latency_s`.
            instances: How many instances the variant has.
        """
        values = {
            "Invocations": 1.0,
            "Invocation4XXErrors": float(400 <= status < 500),
            "Invocation5XXErrors": float(status >= 500 or status == 0),
            "ModelLatency": 1e6 * model_latency_s,
            "OverheadLatency": 1e6 * overhead_s,
        }
        if instances:  # as in SageMaker, the sum over a minute is the mean number per instance
            values["InvocationsPerInstance"] = 1 / instances
        with self._lock:
            self.timeout_count += status == 0
            self._counts[owner, endpoint, variant] += 1
        self._record(owner, endpoint, variant, values)

    def record_backlog(self, owner: Owner, endpoint: str, size: int, instances: int) -> None:
        """Record how many asynchronous requests an endpoint has that are not answered yet.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            size: How many requests there are.
            instances: How many instances are ready to answer them.
        """
        values = {
            "ApproximateBacklogSize": float(size),
            "HasBacklogWithoutCapacity": float(size > 0 and instances == 0),
        }
        if instances:
            values["ApproximateBacklogSizePerInstance"] = size / instances
        self._record(owner, endpoint, "", values)

    def record_async_result(
        self, owner: Owner, endpoint: str, *, waited_s: float, total_s: float, is_failed: bool, is_expired: bool
    ) -> None:
        """Count an asynchronous request that has ended.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            waited_s: Seconds that the request was in the queue.
            total_s: Seconds from its arrival until its answer or its error was in S3.
            is_failed: Whether it failed.
            is_expired: Whether it was in the queue for too long.
        """
        values = {
            "InvocationsProcessed": float(not is_failed),
            "InvocationFailures": float(is_failed),
            "ExpiredRequests": float(is_expired),
            "TimeInBacklog": 1e3 * waited_s,
            "TotalProcessingTime": 1e3 * total_s,
        }
        self._record(owner, endpoint, "", values)

    def count_invocations(self, owner: Owner, endpoint: str, variant: str) -> int:
        """Return how many invocations of a variant were recorded since the server's start."""
        with self._lock:
            return self._counts[owner, endpoint, variant]

    def record_setup(self, owner: Owner, endpoint: str, variant: str, seconds: float) -> None:
        """Record how many seconds a cold start of a serverless variant took."""
        self._record(owner, endpoint, variant, {"ModelSetupTime": 1e6 * seconds})

    def record_usage(self, owner: Owner, endpoint: str, variant: str, values: Mapping[str, float]) -> None:
        """Record the utilization of one instance of a variant: the values of `INSTANCE_METRICS` that are known."""
        self._record(owner, endpoint, variant, values)

    def _record(self, owner: Owner, endpoint: str, variant: str, values: Mapping[str, float]) -> None:
        minute = utcnow().replace(second=0, microsecond=0)
        with self._lock:
            for name, value in values.items():
                key = (owner, endpoint, variant, name)
                datum = self._data.get(key)
                if datum is None or datum.timestamp != minute:
                    self._data[key] = datum = _create_datum(key, value, minute)
                else:
                    datum.add(value)
                self._changed_data[key, minute] = datum


def _create_datum(key: Key, value: float, minute: datetime) -> HistogramDatum:
    """Create a datum with its first value, and add it to the data of moto's CloudWatch."""
    owner, endpoint, variant, name = key
    namespace = INSTANCES_NAMESPACE if name in INSTANCE_METRICS else NAMESPACE
    dimensions = [{"Name": "EndpointName", "Value": endpoint}]
    if variant:  # metrics of the asynchronous queue have no variant
        dimensions.append({"Name": "VariantName", "Value": variant})
    datum = HistogramDatum(namespace, name, dimensions, minute, UNITS[name], value)
    cloudwatch_backends[owner.account_id][owner.region].metric_data.append(datum)
    return datum
