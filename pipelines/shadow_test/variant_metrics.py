"""Read the metrics of a variant of an endpoint from CloudWatch: invocations, errors and latency."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import boto3

from pipelines.shadow_test.pairs import Period
from pipelines.system.aws_errors import translate_aws_errors

MINUTE = dt.timedelta(minutes=1)
MAX_PERIOD_S = 86_400
"""Longest period of a statistic, seconds: the longest one that CloudWatch keeps percentiles of."""
STATISTICS = ("Average", "p50", "p99")
"""Statistics of the latency, as `VariantMetrics` has them."""


@dataclass(frozen=True)
class VariantMetrics:
    """Requests, errors and latency of a variant in the time of a shadow."""

    invocations: int
    errors: int
    """Invocations that were answered with a 4XX or 5XX error, or not in time."""
    latency_ms: dict[str, float]
    """Maps each statistic to the model's latency, milliseconds; empty without invocations."""


def read_variant_metrics(endpoint: str, variant: str, period: Period) -> VariantMetrics:
    """Read the metrics of a variant in the whole minutes that contain the period.

    Raises:
        InvalidError: AWS denies the request. A retry cannot help.
        ServiceError: CloudWatch does not answer. A retry can help.
    """
    with translate_aws_errors("CloudWatch"):
        reader = _MetricReader(endpoint, variant, period)
        errors = [reader.sum_values(f"Invocation{kind}Errors") for kind in ("4XX", "5XX")]
        return VariantMetrics(reader.sum_values("Invocations"), sum(errors), reader.read_latency())


class _MetricReader:
    def __init__(self, endpoint: str, variant: str, period: Period) -> None:
        self._cloudwatch = boto3.client("cloudwatch")
        begin = period.since.replace(second=0, microsecond=0)
        end = period.until.replace(second=0, microsecond=0) + MINUTE
        self._request = {
            "Namespace": "AWS/SageMaker",
            "Dimensions": [
                {"Name": "EndpointName", "Value": endpoint},
                {"Name": "VariantName", "Value": variant},
            ],
            "StartTime": begin,
            "EndTime": end,
            "Period": min(int((end - begin).total_seconds()), MAX_PERIOD_S),
        }

    def sum_values(self, metric: str) -> int:
        points = self._read(metric, Statistics=["Sum"])
        return int(sum(point["Sum"] for point in points))

    def read_latency(self) -> dict[str, float]:
        """Return the statistics of the latency. Those of several periods are weighted by their invocations."""
        points = self._read("ModelLatency", Statistics=["Average", "SampleCount"])
        counts = {point["Timestamp"]: point["SampleCount"] for point in points}
        values: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            values.setdefault("Average", []).append((point["Average"], point["SampleCount"]))
        for point in self._read("ModelLatency", ExtendedStatistics=["p50", "p99"]):
            for name, value in point["ExtendedStatistics"].items():
                values.setdefault(name, []).append((value, counts.get(point["Timestamp"], 0)))
        return {name: _average(pairs) / 1_000 for name, pairs in values.items()}  # CloudWatch has microseconds

    def _read(self, metric: str, **fields: Any) -> list[dict[str, Any]]:
        return list(self._cloudwatch.get_metric_statistics(MetricName=metric, **self._request, **fields)["Datapoints"])


def _average(values: Sequence[tuple[float, float]]) -> float:
    """Return the mean of values with their weights."""
    return sum(value * weight for value, weight in values) / (sum(weight for _, weight in values) or 1.0)
