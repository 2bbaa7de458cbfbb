"""Define the stored record of an endpoint."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from drydock.host.machines import MachineSize, parse_instance_type


class EndpointStatus(StrEnum):
    """The values of EndpointStatus that drydock uses."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass
class Variant:
    """A variant of an endpoint, production or shadow: a model, and how many instances serve it.

    Attributes:
        name: VariantName.
        container: The container of its model, as it was when the deployment began.
        instance_type: InstanceType.
        count: How many instances it should have.
        weight: A production variant's share of the requests is its weight divided by the sum of those of all production
            variants. A shadow variant gets copies of a share of the requests: its weight divided by that of the
            production variant.
        is_shadow: Whether it gets copies of the requests of the production variant. Clients do not get its answers.
        serverless: ServerlessConfig; None for a variant that runs on instances. For a serverless variant, `count` is
            ProvisionedConcurrency: the number of processes that run even without requests.
        managed_scaling: ManagedInstanceScaling. DescribeEndpoint returns it. Its Status is never ENABLED, so it has no
            effect.
        volume_gib: VolumeSizeInGB; 0 without it.
    """

    name: str
    container: dict[str, Any]
    instance_type: str
    count: int
    weight: float
    is_shadow: bool = False
    serverless: dict[str, Any] | None = None
    managed_scaling: dict[str, Any] | None = None
    volume_gib: int = 0

    @property
    def max_concurrency(self) -> float:
        """Largest number of requests at a time: MaxConcurrency of a serverless variant, else infinite."""
        return self.serverless["MaxConcurrency"] if self.serverless else math.inf

    @property
    def size(self) -> MachineSize:
        """Cores and memory of an instance; one core if it is serverless, since SageMaker states only the memory."""
        if self.serverless:
            return MachineSize(1, self.serverless["MemorySizeInMB"])
        return parse_instance_type(self.instance_type)


@dataclass
class ServedConfig:
    """A configuration that an endpoint serves or will serve, with its DataCaptureConfig and AsyncInferenceConfig."""

    config_name: str
    variants: list[Variant]
    capture: dict[str, Any] | None = None
    asynchronous: dict[str, Any] | None = None

    @property
    def async_concurrency(self) -> int:
        """How many asynchronous requests each instance gets at a time."""
        client = (self.asynchronous or {}).get("ClientConfig", {})
        return int(client.get("MaxConcurrentInvocationsPerInstance", 1))

    @property
    def production_variants(self) -> list[Variant]:
        """The variants whose answers clients get."""
        return [variant for variant in self.variants if not variant.is_shadow]

    @property
    def shadow(self) -> Variant | None:
        """The shadow variant; None without one."""
        return next((variant for variant in self.variants if variant.is_shadow), None)

    def count_instances(self) -> int:
        """Return how many instances all variants have together."""
        return sum(variant.count for variant in self.variants)

    @classmethod
    def load(cls, content: Mapping[str, Any]) -> "ServedConfig":
        """Return the configuration from a mapping that `asdict` returned."""
        variants = [Variant(**variant) for variant in content["variants"]]
        return cls(content["config_name"], variants, content.get("capture"), content.get("asynchronous"))


@dataclass
class EndpointRecord:
    """All that is stored of one endpoint. The field names are the keys of the stored JSON.

    Attributes:
        name: EndpointName.
        arn: EndpointArn.
        plan: The configuration that it serves; while it is Creating, the one that it will serve.
        created: CreationTime.
        modified: LastModifiedTime.
        status: EndpointStatus.
        reason: FailureReason of the last deployment.
        tags: The tags; AddTags and DeleteTags change them.
        next_plan: The configuration that it will serve after the update in progress; None if there is no update.
        deployment: DeploymentConfig of the creation or the last update.
        restarts: Number of times that an instance was started again because its process had ended.
    """

    name: str
    arn: str
    plan: ServedConfig
    created: datetime
    modified: datetime
    status: EndpointStatus = EndpointStatus.CREATING
    reason: str | None = None
    tags: list[dict[str, str]] = field(default_factory=list)
    next_plan: ServedConfig | None = None
    deployment: dict[str, Any] | None = None
    restarts: int = 0

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "EndpointRecord":
        """Return the record that `dump` wrote as JSON."""
        content = json.loads(text)
        content["plan"] = ServedConfig.load(content["plan"])
        content["next_plan"] = content["next_plan"] and ServedConfig.load(content["next_plan"])
        content["status"] = EndpointStatus(content["status"])
        for name in ("created", "modified"):
            content[name] = datetime.fromisoformat(content[name])
        return cls(**content)
