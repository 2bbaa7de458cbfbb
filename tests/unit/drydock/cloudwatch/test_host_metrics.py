"""Test that the metrics of hosts are stored, and that the oldest ones are deleted."""

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drydock.cloudwatch import host_metrics
from drydock.cloudwatch.backend import StoredCloudWatch
from drydock.cloudwatch.host_metrics import HostMetrics
from drydock.cloudwatch.statistics import read_statistic
from drydock.resources import Owner
from drydock.store import Store

OWNER = Owner("123456789012", "us-east-1")
NAMESPACE = "/aws/sagemaker/TrainingJobs"
BEGIN = dt.datetime(2026, 11, 20, 10, 30, 12)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "drydock.sqlite")
    yield store
    store.close()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[dt.timedelta], None]:
    """Return the function that sets the clock to a time after the first moment."""

    def set_time(passed: dt.timedelta) -> None:
        monkeypatch.setattr(host_metrics, "utcnow", lambda: BEGIN + passed)

    set_time(dt.timedelta())
    return set_time


def read_minutes(metrics: HostMetrics) -> list[tuple[str, dt.datetime, float, float]]:
    """Return host, minute, number and maximum of each datum."""
    data = metrics.list_data()
    return [(item.dimensions[0].value, item.timestamp, item.sample_count, item.max) for item in data]


def test_new_server_has_the_data(store: Store, set_clock: Callable[[dt.timedelta], None]) -> None:
    metrics = HostMetrics(store, OWNER)
    for value in (10.0, 30.0, 20.0):
        metrics.record(NAMESPACE, "job/algo-1", {"CPUUtilization": value})
    set_clock(dt.timedelta(minutes=1))
    metrics.record(NAMESPACE, "job/algo-1", {"CPUUtilization": 5.0})
    minute = BEGIN.replace(second=0)
    expected = [("job/algo-1", minute, 3, 30.0), ("job/algo-1", minute + dt.timedelta(minutes=1), 1, 5.0)]
    assert read_minutes(metrics) == read_minutes(HostMetrics(store, OWNER)) == expected
    assert read_minutes(HostMetrics(store, Owner("123456789012", "eu-west-1"))) == []
    backend = StoredCloudWatch(store, OWNER.region, OWNER.account_id)
    median = read_statistic(backend, NAMESPACE, "CPUUtilization", {"Host": "job/algo-1"}, "p50", minute)
    assert median == pytest.approx(10, rel=0.02), "of 5, 10, 20 and 30"


def test_oldest_minutes_are_deleted(
    store: Store, set_clock: Callable[[dt.timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_metrics, "MAX_MINUTES", 3)
    metrics = HostMetrics(store, OWNER)
    for number in range(5):
        set_clock(dt.timedelta(minutes=number))
        metrics.record(NAMESPACE, "job/algo-1", {"CPUUtilization": float(number)})
    assert [value for *_, value in read_minutes(metrics)] == [2, 3, 4]
    assert store.query("SELECT count(*) FROM host_metrics") == [(3,)]
    set_clock(host_metrics.MAX_AGE + dt.timedelta(minutes=3))
    metrics.record(NAMESPACE, "new/algo-1", {"CPUUtilization": 9.0})
    assert [value for *_, value in read_minutes(metrics)] == [4, 9], "the others are older than 15 days"
    assert read_minutes(HostMetrics(store, OWNER)) == read_minutes(metrics)


def test_threads_record_their_minutes_in_the_order_of_time(
    store: Store, set_clock: Callable[[dt.timedelta], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a thread waits for the lock, another one records a later minute."""
    monkeypatch.setattr(host_metrics, "MAX_MINUTES", 2)
    metrics, values = HostMetrics(store, OWNER), {"CPUUtilization": 1.0}
    metrics.record(NAMESPACE, "first/algo-1", values)
    lock = metrics._lock

    class BusyLock:
        def __enter__(self) -> None:
            metrics._lock = lock
            set_clock(dt.timedelta(minutes=1))
            metrics.record(NAMESPACE, "quick/algo-1", values)
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    metrics._lock = BusyLock()
    metrics.record(NAMESPACE, "waiting/algo-1", values)
    minute = BEGIN.replace(second=0) + dt.timedelta(minutes=1)
    expected = [("quick/algo-1", minute, 1, 1.0), ("waiting/algo-1", minute, 1, 1.0)]
    assert read_minutes(metrics) == read_minutes(HostMetrics(store, OWNER)) == expected


def list_data(backend: StoredCloudWatch) -> list[Any]:
    """Return the data of jobs. Other services of the process may have metrics, too."""
    return [datum for datum in backend.get_all_metrics() if datum.namespace == NAMESPACE]


def test_reset_deletes_the_data_of_its_account_only(store: Store) -> None:
    other = HostMetrics(store, Owner("1", "us-east-1"))
    other.record(NAMESPACE, "job/algo-1", {"CPUUtilization": 1.0})
    backend = StoredCloudWatch(store, OWNER.region, OWNER.account_id)
    backend.host_metrics.record(NAMESPACE, "job/algo-1", {"CPUUtilization": 1.0})
    assert len(list_data(backend)) == 1
    backend.reset()
    assert list_data(backend) == []
    assert store.query("SELECT account FROM host_metrics") == [("1",)]


def test_list_has_each_metric_once(store: Store, set_clock: Callable[[dt.timedelta], None]) -> None:
    backend = StoredCloudWatch(store, OWNER.region, OWNER.account_id)
    for number in range(3):
        set_clock(dt.timedelta(minutes=number))
        for host in ("job/algo-1", "job/algo-2"):
            backend.host_metrics.record(NAMESPACE, host, {"CPUUtilization": 1.0, "MemoryUtilization": 1.0})
    _, metrics = backend.list_metrics(None, NAMESPACE, "CPUUtilization", [{"Name": "Host"}])
    assert [metric.dimensions[0].value for metric in metrics] == ["job/algo-1", "job/algo-2"]
    _, metrics = backend.list_metrics(None, NAMESPACE, "", [{"Name": "Host", "Value": "job/algo-2"}])
    assert [metric.name for metric in metrics] == ["CPUUtilization", "MemoryUtilization"]
    assert backend.list_metrics(None, "other", "", [])[1] == []
