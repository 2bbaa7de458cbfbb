"""Rules for scalable targets and scaling policies: those of AWS that moto lacks, and drydock's own limits."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from moto.applicationautoscaling.exceptions import AWSValidationException

from drydock.endpoints.records import ServedConfig
from drydock.jobs.rules import MAX_INSTANCES

METRIC_TYPE = "SageMakerVariantInvocationsPerInstance"
ADJUSTMENT_TYPES = ("ChangeInCapacity", "PercentChangeInCapacity", "ExactCapacity")
_COOLDOWNS = ("Cooldown", "ScaleInCooldown", "ScaleOutCooldown")


def find_instance_limit(config: ServedConfig, variant: str) -> int:
    """Return how many instances a variant may have, so that all variants have at most `MAX_INSTANCES` together."""
    return MAX_INSTANCES - sum(
        other_variant.count for other_variant in config.variants if other_variant.name != variant
    )


def check_range(low: int | None, high: int | None, config: ServedConfig, variant_name: str, min_instances: int) -> None:
    """Check the range of a scalable target.

    Args:
        low: MinCapacity; None if neither the request nor an earlier one has it.
        high: MaxCapacity; None if neither the request nor an earlier one has it.
        config: What the endpoint serves.
        variant_name: Name of the variant.
        min_instances: Smallest allowed number of instances of the variant.

    Raises:
        AWSValidationException: The range is not valid, or the variant is serverless. A retry cannot help.
    """
    (variant,) = (variant for variant in config.variants if variant.name == variant_name)
    if variant.serverless:
        _refuse(f"Variant {variant_name} is serverless, so it has no instances to scale.")
    if low is None or high is None:
        _refuse("A new scalable target must have MinCapacity and MaxCapacity.")
    if low > high:
        _refuse(f"MaxCapacity ({high}) must be greater than or equal to MinCapacity ({low}).")
    if low < min_instances:
        _refuse("MinCapacity of a variant must be at least 1: its endpoint is not asynchronous.")
    if low > (limit := find_instance_limit(config, variant_name)):
        reason = f"an endpoint of drydock has at most {MAX_INSTANCES} instances"
        _refuse(f"MinCapacity ({low}) must be at most {limit}: {reason}.")


def check_policy(kind: str | None, body: Mapping[str, Any]) -> None:
    """Check that drydock can evaluate a scaling policy.

    Args:
        kind: PolicyType; None if neither the request nor an earlier one has it. moto refuses None and unknown types.
        body: The policy's configuration; empty if neither the request nor an earlier one has it.

    Raises:
        AWSValidationException: The policy is not valid, or drydock cannot evaluate it. A retry cannot help.
    """
    for member in _COOLDOWNS:
        if (value := body.get(member, 0)) < 0:
            _refuse(f"{member} must be greater than or equal to 0, not {value}.")
    if kind == "StepScaling":
        _check_steps(body)
    elif kind == "TargetTrackingScaling":
        _check_target_tracking(body)


def _check_steps(body: Mapping[str, Any]) -> None:
    if not body:
        _refuse("A policy of the type StepScaling must have StepScalingPolicyConfiguration.")
    if body.get("AdjustmentType") not in ADJUSTMENT_TYPES:
        _refuse(f"AdjustmentType must be one of {', '.join(ADJUSTMENT_TYPES)}, not {body.get('AdjustmentType')}.")
    steps: Sequence[Mapping[str, Any]] = body.get("StepAdjustments") or ()
    if not steps:
        _refuse("StepScalingPolicyConfiguration must have at least one step in StepAdjustments.")
    for step in steps:
        low, high = step.get("MetricIntervalLowerBound"), step.get("MetricIntervalUpperBound")
        if low is not None and high is not None and low >= high:
            _refuse(f"MetricIntervalLowerBound ({low}) must be less than MetricIntervalUpperBound ({high}).")


def _check_target_tracking(body: Mapping[str, Any]) -> None:
    metric = body.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
    if metric not in (None, METRIC_TYPE):
        _refuse(f"drydock does not have the metric {metric}: use {METRIC_TYPE}.")
    if ("CustomizedMetricSpecification" in body) is (metric is not None):
        _refuse("A policy must have one of PredefinedMetricSpecification and CustomizedMetricSpecification.")
    if "Metrics" in body.get("CustomizedMetricSpecification", {}):
        _refuse("drydock does not evaluate CustomizedMetricSpecification.Metrics: use one metric.")
    if not body.get("TargetValue", 0) > 0:
        _refuse(f"TargetValue must be greater than 0, not {body.get('TargetValue')}.")


def _refuse(message: str) -> NoReturn:
    raise AWSValidationException(message)
