"""Test when policies add and remove instances, and how many."""

from typing import Any

import pytest

from drydock.autoscaling.decisions import TargetTracking, apply_steps


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([200, 200, 200], 1, 2),
        ([101, 101, 101], 2, 3),
        ([300, 300, 450], 2, 9),
        ([200, 200], 1, 1),
        ([200, 90, 200, 200], 1, 1),
        ([40] * 15, 4, 2),
        ([0] * 15, 4, 0),
        ([40] * 14, 4, 4),
        ([40] * 14 + [95], 4, 4),
        ([95] * 15, 4, 4),
    ],
)
def test_target_is_tracked(values: list[float], count: int, expected: int) -> None:
    tracking = TargetTracking(100)
    for value in values:
        tracking.add(value)
    assert tracking.decide(count) == expected


def test_values_before_a_change_do_not_count() -> None:
    tracking = TargetTracking(100)
    for _ in range(3):
        tracking.add(200)
    tracking.clear()
    assert tracking.decide(1) == 1


STEPS = [
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 10, "ScalingAdjustment": 3},
]
STEPS_DOWN = [
    {"MetricIntervalLowerBound": -10, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
    {"MetricIntervalUpperBound": -10, "ScalingAdjustment": -3},
]


@pytest.mark.parametrize(
    ("policy", "count", "breach", "expected"),
    [
        ({"StepAdjustments": STEPS}, 2, 5, 3),
        ({"StepAdjustments": STEPS}, 2, 10, 5),
        ({"StepAdjustments": STEPS}, 2, -1, 2),
        ({"AdjustmentType": "ExactCapacity", "StepAdjustments": STEPS}, 0, 0, 1),
        ({"AdjustmentType": "PercentChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 50}]}, 4, 0, 6),
        ({"AdjustmentType": "PercentChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": -50}]}, 4, 0, 2),
        ({"AdjustmentType": "PercentChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 10}]}, 2, 0, 3),
        ({"AdjustmentType": "PercentChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 0}]}, 2, 0, 2),
        ({"StepAdjustments": STEPS_DOWN}, 5, 0, 4),
        ({"StepAdjustments": STEPS_DOWN}, 5, -10, 2),
        ({"StepAdjustments": STEPS_DOWN}, 5, -9, 4),
        ({"StepAdjustments": STEPS_DOWN}, 5, 1, 5),
        ({"StepAdjustments": [{"MetricIntervalLowerBound": None, "ScalingAdjustment": 1}]}, 2, 5, 3),
        ({}, 2, 5, 2),
    ],
)
def test_steps_are_applied(policy: dict[str, Any], count: int, breach: float, expected: int) -> None:
    assert apply_steps(policy, count, breach) == expected
