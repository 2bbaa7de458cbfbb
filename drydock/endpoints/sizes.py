"""Compute and set the size of a variant, which UpdateEndpointWeightsAndCapacities and scaling policies change."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drydock.endpoints.records import ServedConfig, Variant
from drydock.endpoints.rules import check_provisioned_concurrency
from drydock.jobs.rules import refuse


@dataclass(frozen=True)
class VariantSize:
    """The size of a variant: its weight, its number of instances, and its ServerlessConfig.

    For a serverless variant, `count` is ProvisionedConcurrency, as in `Variant`.
    """

    weight: float
    count: int
    serverless: dict[str, Any] | None = None

    @classmethod
    def from_variant(cls, variant: Variant) -> "VariantSize":
        """Return the size that a variant has."""
        return cls(variant.weight, variant.count, variant.serverless)


def set_sizes(variants: Sequence[Variant], sizes: Mapping[str, VariantSize]) -> None:
    """Set the size of each variant; `sizes` has the new size of each of them, by the name of the variant."""
    for variant in variants:
        size = sizes[variant.name]
        variant.weight, variant.count, variant.serverless = size.weight, size.count, size.serverless


def retain_properties(config: ServedConfig, next_config: ServedConfig, excluded_properties: Collection[str]) -> None:
    """Copy sizes and data capture from the present configuration to the next one. Variants are matched by name.

    A serverless variant of the next configuration keeps its own ProvisionedConcurrency.

    Args:
        config: The configuration that the endpoint serves.
        next_config: The configuration that it will serve; changed in place.
        excluded_properties: What is not copied: DesiredInstanceCount, DesiredWeight, DataCaptureConfig.
    """
    variants = {variant.name: variant for variant in config.variants}
    for variant in next_config.variants:
        if (old_variant := variants.get(variant.name)) is None:
            continue
        if "DesiredWeight" not in excluded_properties:
            variant.weight = old_variant.weight
        if "DesiredInstanceCount" not in excluded_properties and not variant.serverless:
            variant.count = old_variant.count
    if "DataCaptureConfig" not in excluded_properties:
        next_config.capture = config.capture


def compute_size(variant: Variant, change: Mapping[str, Any], min_count: int) -> VariantSize:
    """Compute the size of a variant after a change.

    Args:
        variant: The variant.
        change: The variant's entry in DesiredWeightsAndCapacities; empty without an entry.
        min_count: Smallest allowed number of instances.

    Raises:
        AWSValidationException: The change does not fit the variant. A retry cannot help.
    """
    weight = change.get("DesiredWeight", variant.weight)
    update = change.get("ServerlessUpdateConfig")
    if variant.serverless:
        if "DesiredInstanceCount" in change:
            refuse(f"Variant {variant.name} is serverless: use ServerlessUpdateConfig, not DesiredInstanceCount.")
        serverless = {**variant.serverless, **(update or {})}
        check_provisioned_concurrency(serverless)
        return VariantSize(weight, serverless.get("ProvisionedConcurrency", 0), serverless)
    if update:
        refuse(f"Variant {variant.name} is not serverless, so it cannot have ServerlessUpdateConfig.")
    count = change.get("DesiredInstanceCount", variant.count)
    if count < min_count:
        refuse(f"A variant of an endpoint must have at least {min_count} instance.")
    return VariantSize(weight, count)
