"""Test that metrics of endpoints survive a restart, and that they take a limited number of rows."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from moto.core.utils import utcnow

from drydock.cloudwatch.backend import StoredCloudWatch
from drydock.cloudwatch.statistics import HistogramDatum
from drydock.cloudwatch.stored_metrics import StoredMetrics
from drydock.endpoints.metrics import EndpointMetrics
from drydock.resources import Owner
from drydock.store import Store

OWNER, OTHER = Owner("123456789012", "us-east-1"), Owner("123456789012", "eu-west-1")
NOW = datetime(2026, 11, 25, 10, 30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "db")
    yield store
    store.close()


def build_datum(moment: datetime, *values: float) -> HistogramDatum:
    """Return a datum of the metric Invocations of an endpoint."""
    dimensions = [{"Name": "EndpointName", "Value": "flights"}]
    datum = HistogramDatum("AWS/SageMaker", "Invocations", dimensions, moment, "None", values[0])
    for value in values[1:]:
        datum.add(value)
    return datum


def write(data: StoredMetrics, *datums: HistogramDatum, owner: Owner = OWNER) -> None:
    data.write([data.build_row(owner, datum) for datum in datums])


def count_rows(store: Store) -> int:
    return int(store.query("SELECT count(*) FROM metric_data")[0][0])


def test_data_come_back_with_their_values_and_percentiles(store: Store) -> None:
    write(StoredMetrics(store), build_datum(NOW, 0.0, 1.0, 5.0))
    write(StoredMetrics(store), build_datum(NOW, 7.0), owner=OTHER)
    (datum,) = StoredMetrics(store).load(OWNER)
    expected = build_datum(NOW, 0.0, 1.0, 5.0)
    assert (datum.namespace, datum.name, datum.unit, datum.timestamp) == ("AWS/SageMaker", "Invocations", "None", NOW)
    assert [(item.name, item.value) for item in datum.dimensions] == [("EndpointName", "flights")]
    assert (datum.sum, datum.sample_count, datum.min, datum.max) == (6.0, 3, 0.0, 5.0)
    assert datum.histogram.counts == expected.histogram.counts


def test_a_datum_that_grows_replaces_its_row_and_two_servers_in_one_minute_have_two(store: Store) -> None:
    first, datum = StoredMetrics(store), build_datum(NOW, 1.0)
    write(first, datum)
    datum.add(1.0)
    write(first, datum)
    assert count_rows(store) == 1
    write(StoredMetrics(store), build_datum(NOW, 1.0))
    assert sum(item.sum for item in StoredMetrics(store).load(OWNER)) == 3.0


def test_minutes_of_past_hours_are_merged_and_old_data_deleted(store: Store) -> None:
    data = StoredMetrics(store)
    minutes = [NOW - timedelta(days=3, minutes=n) for n in range(100)]
    recent, old = NOW - timedelta(hours=2), NOW - timedelta(days=70)
    write(data, *(build_datum(moment, 1.0, 3.0) for moment in (*minutes, recent, recent - timedelta(minutes=1), old)))
    write(data, build_datum(minutes[0], 9.0), owner=OTHER)
    for _ in range(2):
        data.compact(NOW)
        items = data.load(OWNER)
        assert [item.timestamp.minute for item in items[:-2]] == [0] * len(items[:-2])
        assert [item.timestamp for item in items[-2:]] == [recent - timedelta(minutes=1), recent]
        assert len(items) == 5, "three hours and two minutes"
        assert (sum(item.sum for item in items), sum(item.sample_count for item in items)) == (4.0 * 102, 2 * 102)
    assert [item.max for item in data.load(OTHER)] == [9.0]


def test_invocations_of_an_earlier_server_are_in_cloudwatch_until_a_reset(store: Store) -> None:
    metrics = EndpointMetrics(store)
    metrics.start()
    for _ in range(3):
        metrics.record_invocation(
            OWNER, "flights", "main", status=200, model_latency_s=0.01, overhead_s=0.001, instances=1
        )
    metrics.close()

    def read(name: str) -> list[float]:
        cloudwatch = StoredCloudWatch(store, OWNER.region, OWNER.account_id)
        dimensions = [{"Name": "EndpointName", "Value": "flights"}, {"Name": "VariantName", "Value": "main"}]
        begin, end = utcnow() - timedelta(hours=1), utcnow() + timedelta(minutes=1)
        statistics = cloudwatch.get_metric_statistics("AWS/SageMaker", name, begin, end, 7_200, ["Sum"], dimensions)
        return [float(item.get_statistics_for_type("Sum") or 0) for item in statistics]

    assert read("Invocations") == [3.0]
    assert read("ModelLatency") == [pytest.approx(30_000.0)]
    StoredCloudWatch(store, OWNER.region, OWNER.account_id).reset()
    assert read("Invocations") == []
