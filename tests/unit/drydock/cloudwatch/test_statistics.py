"""Test percentiles: their error, their names, and which data have them."""

import random
from datetime import datetime
from typing import Any

import pytest
from moto.cloudwatch.models import MetricAggregatedDatum, MetricDatum

from drydock.cloudwatch.histogram import Histogram, find_percentile
from drydock.cloudwatch.statistics import HistogramDatum, PercentileStatistics, read_percent

MINUTE = datetime(2026, 11, 25, 10, 30)


def build(*data: Any, stats: tuple[str, ...] = ("p50", "p99")) -> PercentileStatistics:
    """Return the statistics of some data."""
    statistics = PercentileStatistics(list(stats), MINUTE)
    statistics.metric_data = list(data)
    return statistics


@pytest.mark.parametrize("percent", [0, 1, 50, 90, 99, 99.9, 100])
def test_percentile_differs_from_the_exact_one_by_at_most_a_percent(percent: float) -> None:
    values = [random.Random(number).lognormvariate(8, 1) for number in range(5000)]
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = find_percentile(((value, 1) for value in values), percent)
    assert find_percentile(histogram.iterate(), percent) == pytest.approx(exact, rel=0.01)
    assert len(histogram.counts) < 500


def test_percentile_of_few_values_is_one_of_them() -> None:
    assert find_percentile([(1.0, 1), (2.0, 98), (9.0, 1)], 99) == 2.0
    assert find_percentile([(1.0, 1), (2.0, 97), (9.0, 2)], 99) == 9.0
    assert find_percentile([(1.0, 999), (9.0, 1)], 99.9) == 1.0
    assert find_percentile([(1.0, 7), (2.0, 93)], 7) == 1.0
    assert find_percentile([], 50) is None


def test_values_of_zero_are_counted() -> None:
    datum = HistogramDatum("mine", "errors", [], MINUTE, "None", 0.0)
    datum.add(5.0)
    assert build(datum).extended_statistics == {"p50": 0.0, "p99": 5.0}


def test_data_of_clients_have_percentiles_and_sets_of_statistics_have_not() -> None:
    values = [MetricDatum("mine", "x", float(number), [], MINUTE) for number in (1, 2, 3)]
    assert build(*values).extended_statistics == {"p50": 2.0, "p99": 3.0}
    assert build(MetricAggregatedDatum("mine", "x", 1, 3, 3, 6, [], MINUTE)).extended_statistics == {}


@pytest.mark.parametrize(
    ("name", "percent"), [("p99", 99), ("p99.9", 99.9), ("p100", 100), ("p0", 0), ("Sum", None), ("p101", None)]
)
def test_names_of_percentiles(name: str, percent: float | None) -> None:
    assert read_percent(name) == percent
