"""Test which scalable targets and scaling policies are refused."""

import re
from typing import Any

import pytest
from moto.applicationautoscaling.exceptions import AWSValidationException

from drydock.autoscaling.rules import METRIC_TYPE, check_policy, check_range, find_instance_limit
from drydock.endpoints.records import ServedConfig, Variant

STEPS = {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": [{"ScalingAdjustment": 1}]}
TRACKING = {"TargetValue": 70.0, "PredefinedMetricSpecification": {"PredefinedMetricType": METRIC_TYPE}}
SERVERLESS = {"MemorySizeInMB": 1024, "MaxConcurrency": 5}


def build_config(*counts: int, serverless: dict[str, Any] | None = None) -> ServedConfig:
    """Return a configuration with the variants v0, v1, ... that have so many instances."""
    return ServedConfig(
        "c", [Variant(f"v{n}", {}, "ml.m5.large", count, 1.0, False, serverless) for n, count in enumerate(counts)]
    )


@pytest.mark.parametrize(("low", "high"), [(1, 1), (18, 100)])
def test_ranges_within_the_limit_of_an_endpoint_are_accepted(low: int, high: int) -> None:
    check_range(low, high, build_config(1, 2), "v0", 1)


@pytest.mark.parametrize(
    ("low", "high", "config", "message"),
    [
        (
            21,
            21,
            build_config(1),
            "MinCapacity (21) must be at most 20: an endpoint of drydock has at most 20 instances.",
        ),
        (19, 30, build_config(1, 2), "MinCapacity (19) must be at most 18"),
        (2, 1, build_config(1), "MaxCapacity (1) must be greater than or equal to MinCapacity (2)."),
        (0, 1, build_config(1), "MinCapacity of a variant must be at least 1"),
        (1, None, build_config(1), "A new scalable target must have MinCapacity and MaxCapacity."),
        (1, 2, build_config(0, serverless=SERVERLESS), "Variant v0 is serverless, so it has no instances to scale."),
    ],
)
def test_ranges_that_cannot_be_reached_are_refused(
    low: int, high: int | None, config: ServedConfig, message: str
) -> None:
    with pytest.raises(AWSValidationException, match=re.escape(message)):
        check_range(low, high, config, "v0", 1)


def test_limit_of_a_variant_is_what_the_others_leave() -> None:
    assert find_instance_limit(build_config(1), "v0") == 20
    assert find_instance_limit(build_config(1, 5, 4), "v0") == 11


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("StepScaling", STEPS),
        ("StepScaling", {**STEPS, "Cooldown": 0}),
        ("TargetTrackingScaling", {**TRACKING, "ScaleInCooldown": 60}),
    ],
)
def test_policies_are_accepted(kind: str, body: dict[str, Any]) -> None:
    check_policy(kind, body)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("StepScaling", {}, "must have StepScalingPolicyConfiguration"),
        ("StepScaling", {**STEPS, "AdjustmentType": "Twice"}, "AdjustmentType must be one of ChangeInCapacity"),
        ("StepScaling", {**STEPS, "StepAdjustments": []}, "must have at least one step in StepAdjustments"),
        ("StepScaling", {**STEPS, "Cooldown": -1}, "Cooldown must be greater than or equal to 0, not -1."),
        (
            "StepScaling",
            {**STEPS, "StepAdjustments": [{"MetricIntervalLowerBound": 2.0, "MetricIntervalUpperBound": 1.0}]},
            "MetricIntervalLowerBound (2.0) must be less than MetricIntervalUpperBound (1.0).",
        ),
        ("TargetTrackingScaling", {}, "A policy must have one of PredefinedMetricSpecification"),
        ("TargetTrackingScaling", {**TRACKING, "ScaleInCooldown": -5}, "ScaleInCooldown must be greater than or equal"),
        ("TargetTrackingScaling", {**TRACKING, "ScaleOutCooldown": -5}, "ScaleOutCooldown must be greater than or"),
        ("TargetTrackingScaling", {**TRACKING, "TargetValue": 0.0}, "TargetValue must be greater than 0, not 0.0."),
    ],
)
def test_policies_without_effect_or_sense_are_refused(kind: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(AWSValidationException, match=re.escape(message)):
        check_policy(kind, body)
