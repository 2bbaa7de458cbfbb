"""Test which alarms are refused: those that CloudWatch refuses, and those that drydock cannot evaluate."""

import re
from typing import Any

import pytest
from moto.core.exceptions import ServiceException

from drydock.cloudwatch.alarm_rules import check_alarm, find_evaluation_problem
from tests.tools.alarms import build_alarm

ALARM: dict[str, Any] = {
    "name": "a",
    "namespace": "mine",
    "metric_name": "errors",
    "comparison_operator": "GreaterThanThreshold",
    "threshold": 5.0,
    "statistic": "Sum",
    "period": 60,
    "evaluation_periods": 3,
}
ACCEPTED: list[dict[str, Any]] = [
    {},
    {"threshold": 0.0},
    {"period": 10},
    {"period": 20},
    {"period": 30},
    {"period": 86_400, "evaluation_periods": 7},
    {"datapoints_to_alarm": 3},
    {"statistic": None, "extended_statistic": "p99.9"},
    {"treat_missing_data": "ignore"},
]
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"comparison_operator": "Foo"}, "Option Foo is not supported. Supported options for parameter ComparisonOperator"),
    ({"comparison_operator": None}, "The parameter ComparisonOperator is required."),
    ({"comparison_operator": "GreaterThanUpperThreshold"}, "Option GreaterThanUpperThreshold is not supported."),
    ({"threshold": float("nan")}, "The value nan for parameter Threshold is invalid."),
    ({"threshold": float("inf")}, "The value inf for parameter Threshold is invalid."),
    ({"threshold": None}, "The parameter Threshold is required."),
    ({"statistic": None}, "Must specify either Statistic or ExtendedStatistic"),
    ({"extended_statistic": "p99"}, "Must specify either Statistic or ExtendedStatistic"),
    ({"statistic": "Median"}, "Option Median is not supported."),
    ({"statistic": None, "extended_statistic": "tm90"}, "The value tm90 for parameter ExtendedStatistic"),
    ({"statistic": None, "extended_statistic": "p101"}, "The value p101 for parameter ExtendedStatistic"),
    ({"period": None}, "The parameter Period is required."),
    ({"period": 7}, "Period must be 10, 20, 30 or a multiple of 60"),
    ({"period": 0}, "Period must be 10, 20, 30 or a multiple of 60"),
    ({"period": 90}, "Period must be 10, 20, 30 or a multiple of 60"),
    ({"evaluation_periods": 0}, "EvaluationPeriods must be greater than or equal to 1"),
    ({"evaluation_periods": None}, "The parameter EvaluationPeriods is required."),
    ({"datapoints_to_alarm": 4}, "DatapointsToAlarm must be less than or equal to EvaluationPeriods"),
    ({"datapoints_to_alarm": 0}, "DatapointsToAlarm must be greater than or equal to 1"),
    (
        {"period": 60, "evaluation_periods": 1_441},
        "across more than a day (EvaluationPeriods * Period must be <= 86400)",
    ),
    ({"period": 86_400, "evaluation_periods": 8}, "a week (EvaluationPeriods * Period must be <= 604800) for alarms"),
    ({"treat_missing_data": "zero"}, "Option zero is not supported. Supported options for parameter TreatMissingData"),
    ({"namespace": None}, "The parameter Namespace is required."),
    ({"metric_name": None}, "The parameter MetricName is required."),
    ({"metric_name": None, "metric_data_queries": ["m1 / m2"]}, "drydock does not evaluate alarms on expressions"),
    ({"rule": "ALARM(a)"}, "drydock does not evaluate alarms on expressions"),
    ({"threshold": None, "threshold_metric_id": "t"}, "drydock does not evaluate alarms on expressions"),
]


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_alarms_that_cloudwatch_takes_are_accepted(fields: dict[str, Any]) -> None:
    check_alarm(ALARM | fields)


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=str)
def test_alarms_that_cloudwatch_or_drydock_cannot_evaluate_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ServiceException, match=re.escape(message)) as error:
        check_alarm(ALARM | fields)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, ""),
        ({"rule": "ALARM(a)"}, "drydock evaluates only alarms on one metric"),
        ({"metric_data_queries": ["m1 / m2"]}, "drydock evaluates only alarms on one metric"),
        ({"statistic": None}, "drydock does not compute its statistic ''"),
        ({"threshold": None}, "it has no threshold, or no comparison that drydock knows"),
        ({"comparison_operator": "Foo"}, "it has no threshold, or no comparison that drydock knows"),
        ({"period": None}, "it has no period, or no number of periods"),
        ({"evaluation_periods": 0}, "it has no period, or no number of periods"),
        ({"period": 86_400, "evaluation_periods": 8}, "its periods are together longer than a week"),
    ],
    ids=str,
)
def test_stored_alarm_that_is_not_evaluated_has_a_reason(fields: dict[str, Any], problem: str) -> None:
    _, alarm = build_alarm({}, **fields)
    assert find_evaluation_problem(alarm) == problem
