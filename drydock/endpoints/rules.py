"""Rules for the requests of endpoints: SageMaker's rules beyond the request's shape, and drydock's own limits."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.jobs.rules import MAX_INSTANCES, check_s3_uri, refuse

MAX_WEIGHT = 1e30
"""Largest weight of a variant: the API's numbers are single floats."""
_UNSUPPORTED_MEMBERS = (
    "AsyncInferenceConfig",
    "ExplainerConfig",
    "EnableNetworkIsolation",
    "MetricsConfig",
)
_UNSUPPORTED_VARIANT_MEMBERS = (
    "ServerlessConfig",
    "InstancePools",
    "AcceleratorType",
    "ManagedInstanceScaling",
    "CapacityReservationConfig",
    "CoreDumpConfig",
)
_REQUIRED_VARIANT_MEMBERS = ("ModelName", "InstanceType", "InitialInstanceCount")


def check_config(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the endpoint that a configuration describes.

    Args:
        request: A CreateEndpointConfig request that has passed `api.validation`.

    Raises:
        AWSValidationException: drydock cannot run it. The message names the member. A retry cannot help.
    """
    _refuse_members(request, _UNSUPPORTED_MEMBERS)
    if capture := request.get("DataCaptureConfig"):
        check_s3_uri(capture["DestinationS3Uri"], "DataCaptureConfig.DestinationS3Uri")
    production_variants, shadow_variants = request["ProductionVariants"], request.get("ShadowProductionVariants", [])
    if shadow_variants and (len(production_variants), len(shadow_variants)) != (1, 1):
        refuse("A configuration with ShadowProductionVariants must have one production variant and one shadow variant.")
    variants = [*production_variants, *shadow_variants]
    for variant in variants:
        _refuse_members(variant, _UNSUPPORTED_VARIANT_MEMBERS)
        for member in _REQUIRED_VARIANT_MEMBERS:
            if member not in variant:
                refuse(f"Variant {variant['VariantName']} must have {member}.")
    names = [variant["VariantName"] for variant in variants]
    if repeated := [name for name in names if names.count(name) > 1]:
        refuse(f"The variant name {repeated[0]} is used more than once.")
    _check_finite([variant.get("InitialVariantWeight", 1.0) for variant in shadow_variants])
    check_weights([variant.get("InitialVariantWeight", 1.0) for variant in production_variants])
    check_instance_count(sum(variant["InitialInstanceCount"] for variant in variants))


def check_weights(weights: Sequence[float]) -> None:
    """Check that some variant gets requests.

    Raises:
        AWSValidationException: The weights add up to 0, or one is not a finite number. A retry cannot help.
    """
    _check_finite(weights)
    if sum(weights) <= 0:
        refuse("The sum of the weights of all variants must be greater than 0.")


def _check_finite(weights: Sequence[float]) -> None:
    if not all(weight <= MAX_WEIGHT for weight in weights):  # NaN is not less than anything
        refuse(f"The weight of a variant must be a number up to {MAX_WEIGHT:g}.")


def check_instance_count(count: int) -> None:
    """Check that the instances of an endpoint, each a process of this machine, are not too many.

    Raises:
        AWSValidationException: There are too many. A retry cannot help.
    """
    if count > MAX_INSTANCES:
        refuse(f"An endpoint of drydock has at most {MAX_INSTANCES} instances, not {count}.")


def _refuse_members(structure: Mapping[str, Any], members: Sequence[str]) -> None:
    for member in members:
        if structure.get(member):
            refuse(f"{member} is not supported by drydock.")
