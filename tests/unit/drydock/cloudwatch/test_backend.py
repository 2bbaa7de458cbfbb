"""Test that alarms on one metric are stored: a new server on the same data has them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.models import MetricDataQuery

from drydock.cloudwatch.backend import StoredCloudWatch
from drydock.cloudwatch.data_rules import MissingParameter
from drydock.store import Store

REGION, ACCOUNT = "us-east-1", "123456789012"
ALARM: dict[str, Any] = {
    "namespace": "AWS/SageMaker",
    "metric_name": "ModelLatency",
    "comparison_operator": "GreaterThanThreshold",
    "evaluation_periods": 2,
    "period": 60,
    "threshold": 0.5,
    "statistic": None,
    "extended_statistic": "p99",
    "description": "slow",
    "dimensions": [{"Name": "EndpointName", "Value": "flights"}],
    "alarm_actions": ["arn:aws:sns:us-east-1:123456789012:topic"],
    "tags": [{"Key": "leeway:endpoint", "Value": "flights"}],
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "drydock.sqlite")
    yield store
    store.close()


def open_backend(store: Store, region: str = REGION) -> StoredCloudWatch:
    """Return the CloudWatch that a new server on the same data has."""
    return StoredCloudWatch(store, region, ACCOUNT)


def test_stored_alarm_is_the_one_that_was_put_last(store: Store) -> None:
    backend = open_backend(store)
    backend.put_metric_alarm(name="slow", **ALARM)
    backend.put_metric_alarm(name="slow", **ALARM | {"threshold": 0.7})
    alarm = open_backend(store).alarms["slow"]
    for name in ("extended_statistic", "period", "evaluation_periods", "alarm_actions", "comparison_operator"):
        assert getattr(alarm, name) == ALARM[name]
    assert alarm.threshold == 0.7
    assert [(item.name, item.value) for item in alarm.dimensions] == [("EndpointName", "flights")]
    assert open_backend(store).tagger.list_tags_for_resource(alarm.alarm_arn)["Tags"] == ALARM["tags"]
    assert not open_backend(store, "eu-west-1").alarms


def test_deleted_alarms_and_those_of_a_reset_are_gone(store: Store) -> None:
    backend = open_backend(store)
    for name in ("slow", "deleted"):
        backend.put_metric_alarm(name=name, **ALARM)
    backend.delete_alarms(["deleted", "unknown"])
    assert list(open_backend(store).alarms) == ["slow"]
    backend.reset()
    assert not backend.alarms
    assert not open_backend(store).alarms


def test_refused_alarm_leaves_the_stored_one(store: Store) -> None:
    backend = open_backend(store)
    backend.put_metric_alarm(name="slow", **ALARM)
    query = MetricDataQuery(query_id="a", label="a", period="60", return_data="true", expression="m / 2")
    with pytest.raises(ValidationError, match="drydock does not evaluate alarms on expressions"):
        backend.put_metric_alarm(name="slow", **ALARM | {"metric_name": None, "metric_data_queries": [query]})
    assert backend.alarms["slow"].metric_name == "ModelLatency"
    assert list(open_backend(store).alarms) == ["slow"]


def test_data_without_a_value_are_refused_and_none_of_the_request_is_stored(store: Store) -> None:
    backend = open_backend(store)
    with pytest.raises(MissingParameter, match=r"MetricData\.member\.2\.Value"):
        backend.put_metric_data("mine", [{"MetricName": "m", "Value": 1.0}, {"MetricName": "m"}])
    assert backend.metric_data == []
    backend.put_metric_data("mine", [{"MetricName": "m", "Value": 0.0}])
    assert [datum.value for datum in backend.metric_data] == [0.0]
