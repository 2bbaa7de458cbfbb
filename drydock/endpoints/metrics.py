"""The CloudWatch metrics of endpoints, kept in moto: one datum a minute for each metric of a variant."""

import threading
from datetime import datetime

from moto.cloudwatch.models import MetricAggregatedDatum, cloudwatch_backends
from moto.core.utils import utcnow

from drydock.resources import Owner

NAMESPACE = "AWS/SageMaker"
# From the beginning of the name of an endpoint's metric to its unit.
UNITS = {
    "Invocations": "None",
    "Invocation4XXErrors": "None",
    "Invocation5XXErrors": "None",
    "ModelLatency": "Microseconds",
    "OverheadLatency": "Microseconds",
    "ModelSetupTime": "Microseconds",
}

Key = tuple[Owner, str, str, str]


class InvocationMetrics:
    """Counts invocations and their latencies. Safe for several threads. The metrics are lost when the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: dict[Key, MetricAggregatedDatum] = {}
        self.timeouts = 0
        """How many requests the models did not answer in time, since the server's start."""

    def record(
        self, owner: Owner, endpoint: str, variant: str, *, status: int, model_latency_s: float, overhead_s: float
    ) -> None:
        """Count one invocation.

        Args:
            owner: The endpoint's account and region.
            endpoint: EndpointName.
            variant: VariantName.
            status: HTTP status of the model's answer; 0 if it did not answer in time.
            model_latency_s: Seconds until the model answered.
            overhead_s: Seconds that the invocation took longer than the model.
        """
        values = {
            "Invocations": 1.0,
            "Invocation4XXErrors": float(400 <= status < 500),
            "Invocation5XXErrors": float(status >= 500 or status == 0),
            "ModelLatency": 1e6 * model_latency_s,
            "OverheadLatency": 1e6 * overhead_s,
        }
        minute = utcnow().replace(second=0, microsecond=0)
        with self._lock:
            self.timeouts += status == 0
            for name, value in values.items():
                self._add((owner, endpoint, variant, name), value, minute)

    def record_setup(self, owner: Owner, endpoint: str, variant: str, seconds: float) -> None:
        """Record a cold start of a serverless variant that took so many seconds."""
        minute = utcnow().replace(second=0, microsecond=0)
        with self._lock:
            self._add((owner, endpoint, variant, "ModelSetupTime"), 1e6 * seconds, minute)

    def _add(self, key: Key, value: float, minute: datetime) -> None:
        datum = self._data.get(key)
        if datum is None or datum.timestamp != minute:
            datum = self._data[key] = _create_datum(key, value, minute)
        datum.sum += value
        datum.sample_count += 1
        datum.min, datum.max = min(datum.min, value), max(datum.max, value)


def _create_datum(key: Key, value: float, minute: datetime) -> MetricAggregatedDatum:
    """Return a datum without samples, which CloudWatch has from now on."""
    owner, endpoint, variant, name = key
    dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]
    datum = MetricAggregatedDatum(NAMESPACE, name, value, value, 0.0, 0.0, dimensions, minute, UNITS[name])
    cloudwatch_backends[owner.account_id][owner.region].metric_data.append(datum)
    return datum
