"""Endpoint configurations, as CreateEndpointConfig requests them and DescribeEndpointConfig shows them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class EndpointConfig:
    """One endpoint configuration. All of it is stored.

    Attributes:
        name: EndpointConfigName.
        arn: EndpointConfigArn.
        request: The request without its tags.
        created_at: CreationTime.
        tags: The tags; AddTags and DeleteTags change them.
    """

    name: str
    arn: str
    request: dict[str, Any]
    created_at: datetime
    tags: list[dict[str, str]] = field(default_factory=list)
    status = ""

    @property
    def modified_at(self) -> datetime:
        """When it was created: a configuration does not change."""
        return self.created_at

    def dump(self) -> str:
        """Return the configuration as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "EndpointConfig":
        """Return the configuration that `dump` wrote as JSON."""
        content = json.loads(text)
        return cls(**{**content, "created_at": datetime.fromisoformat(content["created_at"])})

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
        """Return the entry in ListEndpointConfigs."""
        return {"EndpointConfigName": self.name, "EndpointConfigArn": self.arn, "CreationTime": self.created_at}


def _add_default_weight(variant: Mapping[str, Any]) -> dict[str, Any]:
    return {"InitialVariantWeight": 1.0, **variant}
