"""The CloudWatch metrics of endpoints, kept in moto: one datum a minute for each metric of a variant."""

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.utils import utcnow

from drydock.cloudwatch.statistics import HistogramDatum
from drydock.host.usage import Usage
from drydock.resources import Owner

NAMESPACE, INSTANCES_NAMESPACE = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
# From a metric's name to its unit.
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
}
INSTANCE_METRICS = ("CPUUtilization", "MemoryUtilization")

Key = tuple[Owner, str, str, str]


class EndpointMetrics:
    """Records values of metrics. Safe for several threads. The metrics are lost when the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: dict[Key, HistogramDatum] = {}
        self._counts: Counter[tuple[Owner, str, str]] = Counter()
        self.timeouts = 0
        """How many requests the models did not answer in time, since the server's start."""

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
            overhead_s: Seconds that the invocation took longer than the model.
            instances: How many instances the variant has.
        """
        values = {
            "Invocations": 1.0,
            "Invocation4XXErrors": float(400 <= status < 500),
            "Invocation5XXErrors": float(status >= 500 or status == 0),
            "ModelLatency": 1e6 * model_latency_s,
            "OverheadLatency": 1e6 * overhead_s,
        }
        if instances:  # the sum of SageMaker's metric is the number of requests of one instance
            values["InvocationsPerInstance"] = 1 / instances
        with self._lock:
            self.timeouts += status == 0
            self._counts[owner, endpoint, variant] += 1
        self._record(owner, endpoint, variant, values)

    def record_backlog(self, owner: Owner, endpoint: str, size: int, instances: int) -> None:
        """Record how many asynchronous requests an endpoint has that are not answered yet.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            size: How many requests there are.
            instances: How many instances answer them.
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
            waited_s: Seconds that it was in the queue.
            total_s: Seconds until its answer was in S3.
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
        """Record a cold start of a serverless variant that took so many seconds."""
        self._record(owner, endpoint, variant, {"ModelSetupTime": 1e6 * seconds})

    def record_usage(self, owner: Owner, endpoint: str, variant: str, usage: Usage) -> None:
        """Record the CPU and the memory that one instance of a variant used."""
        values = {"CPUUtilization": usage.cpu_percent, "MemoryUtilization": usage.memory_percent}
        self._record(owner, endpoint, variant, values)

    def _record(self, owner: Owner, endpoint: str, variant: str, values: Mapping[str, float]) -> None:
        minute = utcnow().replace(second=0, microsecond=0)
        with self._lock:
            for name, value in values.items():
                key = (owner, endpoint, variant, name)
                datum = self._data.get(key)
                if datum is None or datum.timestamp != minute:
                    self._data[key] = _create_datum(key, value, minute)
                else:
                    datum.add(value)


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
