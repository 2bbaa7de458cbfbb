"""Read the metrics of a variant of an endpoint from CloudWatch: invocations, errors and latency."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import boto3

from pipelines.shadow_test.pairs import Period
from pipelines.system.aws_errors import translate_aws_errors

MINUTE = dt.timedelta(minutes=1)
MAX_PERIOD_S = 86_400
"""Longest period of a statistic, seconds: CloudWatch has no percentiles of longer periods."""
STATISTICS = ("Average", "p50", "p99")
"""Statistics of the latency, as `VariantMetrics` has them."""
MAX_POINTS = 1_440
"""Largest number of data points in one response of CloudWatch."""


class LatencyPoint(NamedTuple):
    """A statistic of the latency in one period of CloudWatch: a minute, several minutes, or up to a day."""

    value: float
    """Milliseconds."""
    requests: float
    """Invocations, above 0."""


@dataclass(frozen=True)
class VariantMetrics:
    """Requests, errors and latency of a variant during a shadow."""

    invocations: int
    errors: int
    """Number of invocations that were answered with a 4XX or 5XX error, or not in time."""
    latency_ms: dict[str, float]
    """Maps each statistic to the model's latency, milliseconds; empty without invocations."""
    latency_by_time: dict[str, dict[dt.datetime, LatencyPoint]] = field(default_factory=dict)
    """Maps each statistic to its values, by the beginning of each value's period. A period is a minute, but longer in a
    shadow of more than a day."""


def read_variant_metrics(endpoint: str, variant: str, period: Period) -> VariantMetrics:
    """Read the metrics of a variant in the whole minutes that contain the period.

    Raises:
        InvalidError: AWS denies the request. A retry cannot help.
        ServiceError: CloudWatch does not answer. A retry can help.
    """
    with translate_aws_errors("CloudWatch"):
        reader = _MetricReader(endpoint, variant, period)
        errors = [reader.sum_values(f"Invocation{kind}Errors") for kind in ("4XX", "5XX")]
        points = reader.read_latency()
        latency_ms = {name: _average(list(values.values())) for name, values in points.items()}
        latency_by_time = reader.read_latency(reader.point_s)
        return VariantMetrics(reader.sum_values("Invocations"), sum(errors), latency_ms, latency_by_time)


class _MetricReader:
    def __init__(self, endpoint: str, variant: str, period: Period) -> None:
        self._cloudwatch = boto3.client("cloudwatch")
        begin = period.since.replace(second=0, microsecond=0)
        end = period.until.replace(second=0, microsecond=0) + MINUTE
        seconds = int((end - begin).total_seconds())
        self.point_s = 60 * -(-seconds // (60 * MAX_POINTS))  # rounded up to whole minutes
        """Seconds of a data point: a minute, or more if the points would otherwise be more than `MAX_POINTS`."""
        self._request = {
            "Namespace": "AWS/SageMaker",
            "Dimensions": [
                {"Name": "EndpointName", "Value": endpoint},
                {"Name": "VariantName", "Value": variant},
            ],
            "StartTime": begin,
            "EndTime": end,
            "Period": min(seconds, MAX_PERIOD_S),
        }

    def sum_values(self, metric: str) -> int:
        points = self._read(metric, Statistics=["Sum"])
        return int(sum(point["Sum"] for point in points))

    def read_latency(self, period_s: int | None = None) -> dict[str, dict[dt.datetime, LatencyPoint]]:
        """Return the statistics of the latency in each period, by the beginning of the period.

        Args:
            period_s: seconds of a period, whole minutes; None: the whole time, or a day if the time is longer.
        """
        fields = {"Period": period_s} if period_s else {}
        values: dict[str, dict[dt.datetime, LatencyPoint]] = {}
        counts = {}
        for point in self._read("ModelLatency", Statistics=["Average", "SampleCount"], **fields):
            counts[point["Timestamp"]] = point["SampleCount"]
            self._add(values, "Average", point["Timestamp"], point["Average"], counts)
        for point in self._read("ModelLatency", ExtendedStatistics=["p50", "p99"], **fields):
            for name, value in point["ExtendedStatistics"].items():
                self._add(values, name, point["Timestamp"], value, counts)
        return values

    @staticmethod
    def _add(
        values: dict[str, dict[dt.datetime, LatencyPoint]],
        statistic: str,
        time: dt.datetime,
        latency_us: float,
        counts: Mapping[dt.datetime, float],
    ) -> None:
        if counts.get(time):
            values.setdefault(statistic, {})[time] = LatencyPoint(latency_us / 1_000, counts[time])

    def _read(self, metric: str, **fields: Any) -> list[dict[str, Any]]:
        return list(
            self._cloudwatch.get_metric_statistics(MetricName=metric, **{**self._request, **fields})["Datapoints"]
        )


def _average(points: Sequence[LatencyPoint]) -> float:
    """Return the mean of the values, weighted by their requests."""
    return sum(point.value * point.requests for point in points) / sum(point.requests for point in points)
