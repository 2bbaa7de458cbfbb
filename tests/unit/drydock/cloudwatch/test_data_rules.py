"""Test which data of metrics, and which queries for them, are refused."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from moto.core.exceptions import ServiceException

from drydock.cloudwatch.data_rules import check_data, check_namespace, check_queries, check_times

STATISTICS = {"SampleCount": 2.0, "Sum": 3.0, "Minimum": 1.0, "Maximum": 2.0}
NOW = datetime(2026, 3, 1, 9, 59, 30)
QUERY = {"Id": "m", "MetricStat": {"Metric": {"MetricName": "errors"}, "Period": 60, "Stat": "Sum"}}


@pytest.mark.parametrize("fields", [{"Value": 0.0}, {"Values": [1.0, 2.0]}, {"StatisticValues": STATISTICS}], ids=str)
def test_data_with_values_are_accepted(fields: dict[str, Any]) -> None:
    check_data([{"MetricName": "errors", **fields}])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "At least one of the parameters must be specified: MetricData.member.2.Value"),
        ({"Values": []}, "At least one of the parameters must be specified: MetricData.member.2.Value"),
        ({"Value": 1.0, "MetricName": ""}, "The parameter MetricData.member.2.MetricName is required."),
        ({"Value": float("nan")}, "The value NaN for parameter MetricData.member.2.Value is invalid."),
        ({"Value": float("-inf")}, "The value -inf for parameter MetricData.member.2.Value is invalid."),
        ({"Values": [1.0, 1e300]}, "The value 1e+300 for parameter MetricData.member.2.Values is invalid."),
        (
            {"StatisticValues": {**STATISTICS, "Sum": float("nan")}},
            "The value NaN for parameter MetricData.member.2.StatisticValues.Sum is invalid.",
        ),
    ],
    ids=str,
)
def test_data_without_a_number_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ServiceException, match=re.escape(message)):
        check_data([{"MetricName": "errors", "Value": 1.0}, {"MetricName": "errors", **fields}])


@pytest.mark.parametrize("namespace", ["AWS/SageMaker", "AWS/Mine", "AWS/"])
def test_namespaces_of_aws_are_refused(namespace: str) -> None:
    with pytest.raises(ServiceException, match=r"The value AWS/ for parameter Namespace is invalid\.") as error:
        check_namespace(namespace)
    assert error.value.code == "InvalidParameterValue"


@pytest.mark.parametrize("namespace", ["mine", "AWS", "aws/mine", "/aws/sagemaker/Endpoints", "My/AWS/"])
def test_other_namespaces_are_accepted(namespace: str) -> None:
    check_namespace(namespace)


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=14), -timedelta(hours=2)], ids=str)
def test_data_of_two_weeks_and_of_the_next_two_hours_are_accepted(age: timedelta) -> None:
    """The limits are those of botocore's description of PutMetricData."""
    east = timezone(timedelta(hours=9))
    times = [NOW - age, (NOW - age).replace(tzinfo=UTC), (NOW - age).replace(tzinfo=UTC).astimezone(east), None]
    check_times([{"MetricName": "errors", "Timestamp": time} for time in times] + [{"MetricName": "errors"}], NOW)


@pytest.mark.parametrize(
    ("time", "rule"),
    [
        (datetime(1970, 1, 1), "within the past two weeks."),
        (datetime(1970, 1, 1, tzinfo=UTC), "within the past two weeks."),
        (NOW - timedelta(days=14, seconds=1), "within the past two weeks."),
        (NOW + timedelta(hours=2, seconds=1), "no more than two hours in the future."),
    ],
    ids=str,
)
def test_older_and_later_data_are_refused(time: datetime, rule: str) -> None:
    message = f"The parameter MetricData.member.2.Timestamp must specify a time {rule}"
    with pytest.raises(ServiceException, match=re.escape(message)):
        check_times([{"MetricName": "errors", "Timestamp": NOW}, {"MetricName": "errors", "Timestamp": time}], NOW)


def test_expression_is_refused_unless_it_is_the_id_of_a_query() -> None:
    check_queries([QUERY, {"Id": "e", "Expression": "m"}])
    for expression in ("m * 100", "other", "SELECT SUM(errors) FROM mine", "e"):
        with pytest.raises(ServiceException, match="drydock does not compute the expression"):
            check_queries([QUERY, {"Id": "e", "Expression": expression}])
