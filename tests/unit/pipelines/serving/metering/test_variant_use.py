"""Test which values of CloudWatch count as the use of a variant in a period."""

import datetime as dt
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pipelines.costs.endpoints.fleets import Fleet
from pipelines.serving.metering.meter import _list_other_times
from pipelines.serving.metering.observation import Observer
from pipelines.serving.metering.unmetered_periods import UnmeteredPeriod
from pipelines.serving.metering.variant_use import read_variant_use

FLEET = Fleet("us-east-1", "boats", "a", "AllTraffic", "ml.m5.large")


def at(minutes: float) -> dt.datetime:
    return dt.datetime(2026, 11, 2, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)


class CloudWatch:
    """Has a value of the CPU for each five minutes of two hours: 10 percent of each of two instances, then 30 of one.

    Of the memory, there is one value.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def get_metric_statistics(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        values = {
            "CPUUtilization": {minute: (10.0, 10) if minute < 60 else (30.0, 5) for minute in range(0, 120, 5)},
            "MemoryUtilization": {15: (7.0, 5)},
        }
        points = [
            {"Timestamp": at(minute), "Maximum": value + 1, "Sum": value * samples, "SampleCount": samples}
            for minute, (value, samples) in values.get(request["MetricName"], {}).items()
            if request["StartTime"] <= at(minute) < request["EndTime"]
        ]
        return {"Datapoints": points}


def read(begin: float, end: float, *others: tuple[float, float], age_days: float = 1) -> dict[str, float]:
    other_times = [(at(first), at(last)) for first, last in others]
    now = at(begin) + dt.timedelta(age_days)
    return read_variant_use(CloudWatch(), FLEET, (at(begin), at(end)), other_times, now)


def test_mean_is_one_of_all_values_of_all_instances_and_what_has_none_is_missing() -> None:
    assert read(0, 120) == {
        **{"cpu_peak": 31.0, "cpu_mean": pytest.approx(50 / 3), "observed_h": 2.0},
        **{"memory_peak": 8.0, "memory_mean": 7.0},
    }
    assert read(60, 120) == {"cpu_peak": 31.0, "cpu_mean": 30.0, "observed_h": 1.0}, "its memory is not known"
    assert read(200, 300) == {"observed_h": 0.0}


def test_each_value_is_in_one_row() -> None:
    rows = [read(0, 62.5), read(62.5, 63), read(63, 120)]
    assert [row["observed_h"] for row in rows] == [1.0, 0.0, 1.0], "60 to 65 belongs to the row after them"
    assert rows[1] == {"observed_h": 0.0}, "no request, no value"


def test_values_of_a_release_are_left_out_because_they_may_be_of_the_other_fleet() -> None:
    values = read(0, 120, (58, 90))
    assert values["observed_h"] == pytest.approx((55 + 30) / 60)
    assert (values["cpu_mean"], values["cpu_peak"]) == (pytest.approx((11 * 100 + 6 * 150) / (110 + 30)), 31.0)
    assert read(0, 120, (-30, 0), (120, 150)) == read(0, 120), "the control: they met, but did not run at once"


def test_old_values_are_those_of_whole_hours() -> None:
    cloudwatch = CloudWatch()
    now = at(30) + dt.timedelta(62)
    read_variant_use(cloudwatch, FLEET, (at(30), at(120)), [], now)
    read_variant_use(cloudwatch, FLEET, (at(30), at(120)), [], now - dt.timedelta(seconds=1))
    assert [(request["StartTime"], request["Period"]) for request in cloudwatch.requests[::5]] == [
        (at(0), 3_600),
        (at(30), 300),
    ]
    names = [item["Name"] for item in cloudwatch.requests[0]["Dimensions"]]
    assert (names, cloudwatch.requests[0]["Namespace"]) == (["EndpointName", "VariantName"], "/aws/sagemaker/Endpoints")


def test_other_fleets_of_a_period_are_those_of_its_variant() -> None:
    def make_period(begin: float, end: float, **fields: str) -> UnmeteredPeriod:
        return UnmeteredPeriod(Fleet(**{**vars(FLEET), **fields}), at(begin), at(end), 1, is_running=True)

    periods = [make_period(0, 60), make_period(30, 90, config="b"), make_period(0, 90, config="b", variant="shadow")]
    assert _list_other_times(periods[0], periods) == [(at(30), at(90))]
    assert _list_other_times(periods[2], periods) == []


class AutoScaling:
    """Has a target for one variant, or refuses the request."""

    def __init__(self, code: str = "") -> None:
        self._code = code

    def describe_scalable_targets(self, ResourceIds: list[str], **_: Any) -> dict[str, Any]:
        if self._code:
            raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, "DescribeScalableTargets")
        return {"ScalableTargets": ResourceIds if ResourceIds == ["endpoint/boats/variant/AllTraffic"] else []}


def test_denied_request_leaves_it_unknown_whether_a_variant_is_scaled() -> None:
    observer = Observer.__new__(Observer)
    observer._autoscaling = AutoScaling()
    assert observer.is_scaled(FLEET) is True
    assert observer.is_scaled(Fleet(**{**vars(FLEET), "variant": "shadow"})) is False
    observer._autoscaling = AutoScaling("AccessDeniedException")
    assert observer.is_scaled(FLEET) is None
