"""Test the evaluation of alarms: which states a metric gives, and when the current period counts."""

from typing import Any

import pytest

from drydock.cloudwatch.alarms import AlarmEvaluator, compute_state
from tests.tools.alarms import NOW, build_alarm

BELOW = "LessThanThreshold"


@pytest.mark.parametrize(
    ("points", "fields", "state"),
    [
        ({1: 5}, {}, "ALARM"),
        ({1: 4}, {}, "OK"),
        ({}, {}, "INSUFFICIENT_DATA"),
        ({5: 9}, {}, "INSUFFICIENT_DATA"),
        ({0: 5}, {}, "ALARM"),
        ({0: 4, 1: 0}, {}, "OK"),
        ({0: 1, 1: 9}, {"comparison_operator": BELOW}, "OK"),
        ({0: 9, 1: 1}, {"comparison_operator": BELOW}, "ALARM"),
        ({0: 9, 1: 1}, {"statistic": "Average"}, "OK"),
        ({1: 9, 2: 9}, {"evaluation_periods": 3}, "OK"),
        ({1: 9, 3: 9}, {"evaluation_periods": 3, "datapoints_to_alarm": 2}, "ALARM"),
        ({1: 9}, {"statistic": None, "extended_statistic": "p99"}, "ALARM"),
        ({1: 4}, {"statistic": None, "extended_statistic": "p99"}, "OK"),
        ({0: 9, 1: 4}, {"statistic": None, "extended_statistic": "p99"}, "OK"),
        ({1: 9}, {"evaluation_periods": 2, "treat_missing_data": "breaching"}, "ALARM"),
        ({}, {"treat_missing_data": "notBreaching"}, "OK"),
        ({}, {"treat_missing_data": "ignore"}, "OK"),
    ],
)
def test_state_follows_the_last_periods(points: dict[int, float], fields: dict[str, Any], state: str) -> None:
    backend, alarm = build_alarm(points, **fields)
    assert compute_state(backend, alarm, NOW) == state


def test_alarm_that_is_put_again_is_evaluated_again() -> None:
    evaluator = AlarmEvaluator()
    fields = {"treat_missing_data": "breaching"}
    for _ in range(2):  # the second one has the same ARN
        backend, alarm = build_alarm({}, **fields)
        evaluator.evaluate(backend, alarm)
        assert alarm.state_value == "ALARM"


def test_alarm_on_other_dimensions_has_no_data() -> None:
    backend, alarm = build_alarm({1: 9}, dimensions=[{"Name": "EndpointName", "Value": "e"}])
    assert compute_state(backend, alarm, NOW) == "INSUFFICIENT_DATA"


def test_alarm_over_more_than_a_week_is_not_evaluated() -> None:
    backend, alarm = build_alarm({1: 9}, evaluation_periods=3_000_000, treat_missing_data="breaching")
    AlarmEvaluator().evaluate(backend, alarm)
    assert alarm.state_value == "OK"
