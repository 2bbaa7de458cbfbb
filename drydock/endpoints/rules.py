"""Check the requests for endpoints by SageMaker's rules beyond types and lengths, and by drydock's own limits."""

from collections.abc import Mapping, Sequence
from typing import Any

from drydock.endpoints.records import ServedConfig
from drydock.jobs.rules import MAX_INSTANCES, check_s3_uri, refuse

MAX_WEIGHT = 1e30
"""Largest weight of a variant: the API's numbers have single precision."""
_UNSUPPORTED_MEMBERS = (
    "ExplainerConfig",
    "EnableNetworkIsolation",
    "MetricsConfig",
)
_UNSUPPORTED_VARIANT_MEMBERS = (
    "InstancePools",
    "AcceleratorType",
    "CapacityReservationConfig",
    "CoreDumpConfig",
)
_INSTANCE_MEMBERS = ("InstanceType", "InitialInstanceCount")
MEMORY_STEP_MB = 1024
"""MemorySizeInMB is a multiple of this."""


def check_config(request: Mapping[str, Any]) -> None:
    """Check that drydock can run the endpoint that a configuration describes.

    Args:
        request: A CreateEndpointConfig request that has passed `api.validation`.

    Raises:
        AWSValidationException: SageMaker would refuse it, or drydock cannot run it. A retry cannot help.
    """
    _refuse_members(request, _UNSUPPORTED_MEMBERS)
    if asynchronous := request.get("AsyncInferenceConfig"):
        _check_async_config(asynchronous, request)
    if capture := request.get("DataCaptureConfig"):
        check_s3_uri(capture["DestinationS3Uri"], "DataCaptureConfig.DestinationS3Uri")
    production_variants, shadow_variants = request["ProductionVariants"], request.get("ShadowProductionVariants", [])
    if shadow_variants and (len(production_variants), len(shadow_variants)) != (1, 1):
        refuse("A configuration with ShadowProductionVariants must have one production variant and one shadow variant.")
    variants = [*production_variants, *shadow_variants]
    for variant in variants:
        _check_variant(variant)
    if any("ServerlessConfig" in variant for variant in variants) and (len(variants) > 1 or capture):
        refuse("A serverless endpoint must have one variant, no shadow variant, and no DataCaptureConfig.")
    names = [variant["VariantName"] for variant in variants]
    if repeated_names := [name for name in names if names.count(name) > 1]:
        refuse(f"The variant name {repeated_names[0]} is used more than once.")
    weights, shadow_weights = (
        [variant.get("InitialVariantWeight", 1.0) for variant in group]
        for group in (production_variants, shadow_variants)
    )
    check_weights(weights, shadow_weights)
    check_instance_count(sum(count_instances(variant) for variant in variants))


def _check_variant(variant: Mapping[str, Any]) -> None:
    _refuse_members(variant, _UNSUPPORTED_VARIANT_MEMBERS)
    _check_managed_scaling(variant)
    for member in ("ModelName", *(() if "ServerlessConfig" in variant else _INSTANCE_MEMBERS)):
        if member not in variant:
            refuse(f"Variant {variant['VariantName']} must have {member}.")
    if "ServerlessConfig" in variant:
        _check_serverless_variant(variant)


def _check_managed_scaling(variant: Mapping[str, Any]) -> None:
    """Refuse what SageMaker refuses for a variant with a model: drydock has no inference components."""
    scaling = variant.get("ManagedInstanceScaling", {})
    if scaling.get("Status") == "ENABLED":
        refuse(
            "ManagedInstanceScaling is only supported for inference component endpoints. drydock has no inference "
            "components: use Application Auto Scaling."
        )
    low = scaling.get("MinInstanceCount", 0)
    if low > (high := scaling.get("MaxInstanceCount", low)):
        refuse(f"MinInstanceCount ({low}) must be less than or equal to MaxInstanceCount ({high}).")


def _check_async_config(config: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    output = config["OutputConfig"]
    if "S3OutputPath" not in output:
        refuse("AsyncInferenceConfig.OutputConfig must have S3OutputPath.")
    for member in ("S3OutputPath", "S3FailurePath"):
        if member in output:
            check_s3_uri(output[member], f"AsyncInferenceConfig.OutputConfig.{member}")
    if output.get("NotificationConfig"):
        refuse("AsyncInferenceConfig.OutputConfig.NotificationConfig is not supported by drydock.")
    if request.get("ShadowProductionVariants"):
        refuse("An asynchronous endpoint cannot have ShadowProductionVariants.")
    if any("ServerlessConfig" in variant for variant in request["ProductionVariants"]):
        refuse("An asynchronous endpoint cannot have serverless variants.")


def count_instances(variant: Mapping[str, Any]) -> int:
    """Return how many instances a variant of a configuration has: ProvisionedConcurrency if it is serverless."""
    serverless = variant.get("ServerlessConfig")
    return int(serverless.get("ProvisionedConcurrency", 0) if serverless else variant["InitialInstanceCount"])


def _check_serverless_variant(variant: Mapping[str, Any]) -> None:
    for member in _INSTANCE_MEMBERS:
        if member in variant:
            refuse(f"Variant {variant['VariantName']} has ServerlessConfig, so it must not have {member}.")
    memory_mb = variant["ServerlessConfig"]["MemorySizeInMB"]
    if memory_mb % MEMORY_STEP_MB:
        refuse(f"MemorySizeInMB must be one of 1024, 2048, 3072, 4096, 5120 or 6144, not {memory_mb}.")
    check_provisioned_concurrency(variant["ServerlessConfig"])


def check_provisioned_concurrency(serverless: Mapping[str, Any]) -> None:
    """Check that ProvisionedConcurrency of a ServerlessConfig is not larger than its MaxConcurrency.

    Raises:
        AWSValidationException: It is larger. A retry cannot help.
    """
    count, maximum = serverless.get("ProvisionedConcurrency", 0), serverless["MaxConcurrency"]
    if count > maximum:
        refuse(f"ProvisionedConcurrency ({count}) must be less than or equal to MaxConcurrency ({maximum}).")


def check_weights(production_weights: Sequence[float], shadow_weights: Sequence[float]) -> None:
    """Check that each weight is usable, and that at least one production variant gets requests.

    Raises:
        AWSValidationException: The weights of the production variants add up to 0, or a weight is not a number up to
            `MAX_WEIGHT`. A retry cannot help.
    """
    # NaN is refused, too: every comparison with it is false.
    if not all(weight <= MAX_WEIGHT for weight in (*production_weights, *shadow_weights)):
        refuse(f"The weight of a variant must be a number up to {MAX_WEIGHT:g}.")
    if sum(production_weights) <= 0:
        refuse("The sum of the weights of all production variants must be greater than 0.")


def check_conversion(config: ServedConfig, next_config: ServedConfig) -> None:
    """Check that an update does not turn instances into serverless variants, or the reverse.

    Raises:
        AWSValidationException: The update would do so. A retry cannot help.
    """
    if len({bool(variant.serverless) for variant in (*config.variants, *next_config.variants)}) > 1:
        refuse("An update cannot turn instances into a serverless variant, nor the reverse: create another endpoint.")


def check_instance_count(count: int) -> None:
    """Check that an endpoint does not have too many instances: each is a process or a container of this machine.

    Raises:
        AWSValidationException: There are too many. A retry cannot help.
    """
    if count > MAX_INSTANCES:
        refuse(f"An endpoint of drydock has at most {MAX_INSTANCES} instances, not {count}.")


def _refuse_members(structure: Mapping[str, Any], members: Sequence[str]) -> None:
    for member in members:
        if structure.get(member):
            refuse(f"{member} is not supported by drydock.")
