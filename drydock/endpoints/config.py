"""Describe an endpoint configuration, as DescribeEndpointConfig and ListEndpointConfigs show it."""

from collections.abc import Mapping
from typing import Any

from drydock.resources import StoredRequest


class EndpointConfig(StoredRequest):
    """An endpoint configuration: the request to CreateEndpointConfig, with its ARN and the time of the creation."""

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeEndpointConfig."""
        variants = [_add_default_weight(variant) for variant in self.request["ProductionVariants"]]
        return {
            **self.request,
            "ProductionVariants": variants,
            "EndpointConfigArn": self.arn,
            "CreationTime": self.created_at,
        }

    def summarize(self) -> dict[str, Any]:
        """Return the configuration's entry in the response of ListEndpointConfigs."""
        return {"EndpointConfigName": self.name, "EndpointConfigArn": self.arn, "CreationTime": self.created_at}


def _add_default_weight(variant: Mapping[str, Any]) -> dict[str, Any]:
    return {"InitialVariantWeight": 1.0, **variant}
