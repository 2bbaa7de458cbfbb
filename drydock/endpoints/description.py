"""Describe an endpoint in the responses of the API."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from drydock.endpoints.instances.fleet import Fleet
from drydock.endpoints.records import EndpointRecord, ServedConfig, Variant


class EndpointDescription:
    """An endpoint, as DescribeEndpoint and ListEndpoints show it.

    Args:
        record: The endpoint's stored record.
    """

    def __init__(self, record: EndpointRecord) -> None:
        self.record = record
        self._fleet: Fleet | None = None  # the subclass `Endpoint` sets it; None if no fleet serves

    @property
    def name(self) -> str:
        """EndpointName."""
        return self.record.name

    @property
    def status(self) -> str:
        """EndpointStatus."""
        return str(self.record.status)

    @property
    def min_instances(self) -> int:
        """Smallest allowed number of instances of a variant: 0 if requests wait in a queue until an instance starts."""
        return 0 if self.record.plan.asynchronous else 1

    @property
    def created_at(self) -> datetime:
        """When the endpoint was created."""
        return self.record.created

    @property
    def modified_at(self) -> datetime:
        """When the endpoint last changed."""
        return self.record.modified

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags, for moto's ListTags."""
        return self.record.tags

    def list_configs(self) -> list[ServedConfig]:
        """Return the configuration that the endpoint serves and, during an update, the next one."""
        return [config for config in (self.record.plan, self.record.next_plan) if config]

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeEndpoint."""
        record, next_config = self.record, self.record.next_plan
        response = {
            "EndpointName": record.name,
            "EndpointArn": record.arn,
            "EndpointConfigName": record.plan.config_name,
            "ProductionVariants": self._describe_variants(is_shadow=False) or None,
            "ShadowProductionVariants": self._describe_variants(is_shadow=True) or None,
            "DataCaptureConfig": _describe_capture(record.plan.capture),
            "AsyncInferenceConfig": record.plan.asynchronous,
            "EndpointStatus": str(record.status),
            "FailureReason": record.reason,
            "CreationTime": record.created,
            "LastModifiedTime": record.modified,
            "LastDeploymentConfig": record.deployment,
            "PendingDeploymentSummary": next_config and {"EndpointConfigName": next_config.config_name},
        }
        return {key: value for key, value in response.items() if value is not None}

    def summarize(self) -> dict[str, Any]:
        """Return the entry in ListEndpoints."""
        members = ("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus")
        description = self.describe()
        return {member: description[member] for member in members}

    def _describe_variants(self, *, is_shadow: bool) -> list[dict[str, Any]]:
        fleet = self._fleet
        if fleet is None:
            return []
        return [
            _describe_variant(variant, fleet) for variant in fleet.config.variants if variant.is_shadow is is_shadow
        ]


def _describe_variant(variant: Variant, fleet: Fleet) -> dict[str, Any]:
    """Return a variant's summary. SageMaker shows no instances of a serverless variant."""
    summary = {
        "VariantName": variant.name,
        "DeployedImages": [{"SpecifiedImage": variant.container.get("Image", "")}],
        "CurrentWeight": variant.weight,
        "DesiredWeight": variant.weight,
        "CurrentInstanceCount": 0 if variant.serverless else fleet.count_ready(variant),
    }
    if variant.serverless:
        return {**summary, "CurrentServerlessConfig": variant.serverless, "DesiredServerlessConfig": variant.serverless}
    if variant.managed_scaling:
        summary["ManagedInstanceScaling"] = variant.managed_scaling
    return {**summary, "DesiredInstanceCount": variant.count}


def _describe_capture(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the summary of a DataCaptureConfig; None if `config` is None."""
    if config is None:
        return None
    is_on = bool(config.get("EnableCapture"))
    return {
        "EnableCapture": is_on,
        "CaptureStatus": "Started" if is_on else "Stopped",
        "CurrentSamplingPercentage": config["InitialSamplingPercentage"],
        "DestinationS3Uri": config["DestinationS3Uri"],
        "KmsKeyId": config.get("KmsKeyId", ""),
    }
