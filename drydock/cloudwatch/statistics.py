"""Compute percentiles of CloudWatch's metrics, such as p99, for GetMetricStatistics, GetMetricData and alarms.

moto 5.2.5 computes only sums, averages, minima, maxima and counts.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, SupportsFloat

from moto.cloudwatch.models import CloudWatchBackend, MetricAggregatedDatum, MetricDatum, Statistics

from drydock.cloudwatch.histogram import Histogram, find_percentile

SIMPLE_STATISTICS = ("Sum", "Average", "Minimum", "Maximum", "SampleCount")


class HistogramDatum(MetricAggregatedDatum):
    """The values of a metric in one minute or one hour: their number, sum and extremes, and a histogram.

    Args:
        namespace: The metric's namespace.
        name: The metric's name.
        dimensions: Its dimensions, as the API names them.
        timestamp: Beginning of the minute or the hour.
        unit: The metric's unit.
        value: The first value.
    """

    def __init__(
        self, namespace: str, name: str, dimensions: list[dict[str, str]], timestamp: datetime, unit: str, value: float
    ) -> None:
        # Minimum and maximum are the value; number and sum are 0 until `add` adds the value.
        super().__init__(namespace, name, value, value, 0.0, 0.0, dimensions, timestamp, unit)
        self.histogram = Histogram()
        self.add(value)

    def add(self, value: float) -> None:
        """Count a value."""
        self.sum += value
        self.sample_count += 1
        self.min: float = min(self.min, value)
        self.max: float = max(self.max, value)
        self.histogram.add(value)

    def merge(self, other: "HistogramDatum") -> None:
        """Add the values of another datum."""
        self.sum += other.sum
        self.sample_count += other.sample_count
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)
        self.histogram.counts.update(other.histogram.counts)

    def dump(self) -> list[Any]:
        """Return the numbers as JSON values for `load`."""
        return [self.sum, self.sample_count, self.min, self.max, self.histogram.dump()]

    def load(self, numbers: list[Any]) -> None:
        """Replace the numbers by those that `dump` returned."""
        self.sum, self.sample_count, self.min, self.max, counts = numbers
        self.histogram.load(counts)


class PercentileStatistics(Statistics):
    """moto's statistics of the data of one period, and percentiles."""

    def get_statistics_for_type(self, stat: str) -> SupportsFloat | None:
        """Return a statistic by its name; None if the data does not have it."""
        percent = read_percent(stat)
        return super().get_statistics_for_type(stat) if percent is None else self._find_percentile(percent)

    @property
    def extended_statistics(self) -> dict[str, float]:
        """The requested percentiles, by name."""
        percents = {stat: percent for stat in self.stats if (percent := read_percent(stat)) is not None}
        values = {stat: self._find_percentile(percent) for stat, percent in percents.items()}
        return {stat: value for stat, value in values.items() if value is not None}

    def _find_percentile(self, percent: float) -> float | None:
        return find_percentile(self._iterate_values(), percent)

    def _iterate_values(self) -> Iterator[tuple[float, float]]:
        """Yield the values and how often each occurs. Statistic sets are left out, because their values are unknown."""
        for datum in self.metric_data:
            if isinstance(datum, MetricDatum):
                yield datum.value, 1
            elif isinstance(datum, HistogramDatum):
                yield from (
                    (min(max(value, datum.min), datum.max), count) for value, count in datum.histogram.iterate()
                )


def list_data(backend: CloudWatchBackend, namespace: str) -> list[Any]:
    """Return all data of a namespace, and some data of other namespaces, which the caller must leave out.

    The data of the metrics of jobs' hosts are already limited to the namespace.

    Args:
        backend: moto's CloudWatch, or drydock's, which stores the metrics of jobs' hosts separately.
        namespace: The namespace.
    """
    host_metrics = getattr(backend, "host_metrics", None)
    return [*backend.metric_data, *(host_metrics.list_data(namespace) if host_metrics else ())]


def read_statistic(
    backend: CloudWatchBackend,
    namespace: str,
    name: str,
    dimensions: Mapping[str, str],
    statistic: str,
    begin: datetime,
) -> float | None:
    """Return a statistic of the data of a metric since a moment; None without data.

    Args:
        backend: The CloudWatch that has the data.
        namespace: The metric's namespace.
        name: The metric's name.
        dimensions: All dimensions of the data, and no others.
        statistic: Name of the statistic, such as Sum or p99.
        begin: The moment, UTC without a time zone.
    """
    statistics = PercentileStatistics([statistic], begin)
    statistics.metric_data = [
        datum
        for datum in list_data(backend, namespace)
        if (datum.namespace, datum.name) == (namespace, name)
        and datum.timestamp >= begin
        and {item.name: item.value for item in datum.dimensions} == dimensions
    ]
    value = statistics.get_statistics_for_type(statistic) if statistics.metric_data else None
    return None if value is None else float(value)


def read_percent(statistic: str) -> float | None:
    """Return the number of a percentile, such as 99.9 for p99.9; None if the statistic is not a percentile."""
    match = re.fullmatch(r"p(\d{1,2}(?:\.\d{1,10})?|100(?:\.0+)?)", statistic)
    return float(match.group(1)) if match else None
