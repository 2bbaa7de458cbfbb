"""Define the stored records of AWS Batch's queues: environments, scheduling policies, queues and quota shares."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

# The states that a client can set, and the statuses that AWS Batch sets.
ENABLED, DISABLED = "ENABLED", "DISABLED"
VALID, DELETING = "VALID", "DELETING"


@dataclass
class StoredRecord:
    """A resource with a name and an ARN. Unless a subclass has its own `dump`, its field names are the JSON keys.

    Attributes:
        name: Name of the resource.
        arn: ARN of the resource.
        tags: The tags.
    """

    name: str
    arn: str
    tags: dict[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def key(self) -> str:
        """The key in the store, unique for the kind of resource in its account and region."""
        return self.arn

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Self:
        """Return the record that `dump` wrote as JSON."""
        return cls(**json.loads(text))


@dataclass
class ServiceEnvironment(StoredRecord):
    """A service environment.

    Attributes:
        limits: capacityLimits.
        state: ENABLED or DISABLED.
    """

    limits: list[dict[str, Any]]
    state: str = ENABLED


@dataclass
class SchedulingPolicy(StoredRecord):
    """A scheduling policy.

    Attributes:
        fair_share: fairsharePolicy; None for a policy of quota shares.
        quota_share: quotaSharePolicy; None for a fair-share policy.
    """

    fair_share: dict[str, Any] | None = None
    quota_share: dict[str, Any] | None = None


@dataclass
class Queue(StoredRecord):
    """A job queue of the type SAGEMAKER_TRAINING.

    Attributes:
        priority: Queues with a higher priority get instances of a shared service environment first.
        order: serviceEnvironmentOrder, with the ARNs of the environments, even if the request had their names. The
            queue tries the environment with the lowest number first.
        policy_arn: ARN of the scheduling policy; None for first in, first out.
        limit_actions: jobStateTimeLimitActions.
        state: ENABLED or DISABLED.
        status: VALID or DELETING.
    """

    priority: int
    order: list[dict[str, Any]]
    policy_arn: str | None = None
    limit_actions: list[dict[str, Any]] = field(default_factory=list)
    state: str = ENABLED
    status: str = VALID

    @property
    def environments(self) -> list[str]:
        """The ARNs of the service environments, in the order in which the queue tries them."""
        return [item["serviceEnvironment"] for item in sorted(self.order, key=lambda item: item["order"])]


@dataclass
class QuotaShare(StoredRecord):
    """A quota share of a queue.

    Attributes:
        queue_arn: ARN of the queue.
        limits: capacityLimits.
        sharing: resourceSharingConfiguration.
        preemption: preemptionConfiguration.
        state: ENABLED or DISABLED.
        status: VALID or DELETING.
    """

    queue_arn: str
    limits: list[dict[str, Any]]
    sharing: dict[str, Any]
    preemption: dict[str, Any]
    state: str = ENABLED
    status: str = VALID
