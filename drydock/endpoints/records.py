"""Define what is stored of endpoints, of their configurations, and of the models behind them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS endpoint_resources (
    kind TEXT, account TEXT, region TEXT, name TEXT, record TEXT, PRIMARY KEY (kind, account, region, name)
);
"""


def get_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


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
    """A production variant of an endpoint: a model, and how many instances serve it.

    Attributes:
        name: VariantName.
        container: The container of its model, as it was when the deployment began.
        instance_type: InstanceType.
        count: How many instances it should have.
        weight: Its share of the requests is this weight divided by the sum of all weights.
        is_shadow: Whether it gets copies of the requests of the production variant, and nobody sees its answers.
    """

    name: str
    container: dict[str, Any]
    instance_type: str
    count: int
    weight: float
    is_shadow: bool = False


@dataclass
class Plan:
    """What an endpoint serves: the configuration's name, its variants, and its DataCaptureConfig."""

    config_name: str
    variants: list[Variant]
    capture: dict[str, Any] | None = None

    @property
    def production_variants(self) -> list[Variant]:
        """The variants whose answers clients get."""
        return [variant for variant in self.variants if not variant.is_shadow]

    @property
    def shadow(self) -> Variant | None:
        """The shadow variant; None without one."""
        return next((variant for variant in self.variants if variant.is_shadow), None)

    @classmethod
    def load(cls, content: Mapping[str, Any]) -> "Plan":
        """Return the plan that `asdict` made a mapping of."""
        variants = [Variant(**variant) for variant in content["variants"]]
        return cls(content["config_name"], variants, content.get("capture"))


@dataclass
class EndpointRecord:
    """All that is stored of one endpoint. The field names are the keys of the stored JSON.

    Attributes:
        name: EndpointName.
        arn: EndpointArn.
        plan: What it serves now, or what it begins to serve while it is Creating.
        created: CreationTime.
        modified: LastModifiedTime.
        status: EndpointStatus.
        reason: FailureReason of the last deployment.
        tags: The tags; AddTags and DeleteTags change them.
        next_plan: What it serves after the update in progress; None without one.
        deployment: DeploymentConfig of the last update.
        restarts: How often an instance was started again because its process ended.
    """

    name: str
    arn: str
    plan: Plan
    created: datetime
    modified: datetime
    status: EndpointStatus = EndpointStatus.CREATING
    reason: str | None = None
    tags: list[dict[str, str]] = field(default_factory=list)
    next_plan: Plan | None = None
    deployment: dict[str, Any] | None = None
    restarts: int = 0

    def dump(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> "EndpointRecord":
        """Return the record that `dump` wrote as JSON."""
        content = json.loads(text)
        content["plan"] = Plan.load(content["plan"])
        content["next_plan"] = content["next_plan"] and Plan.load(content["next_plan"])
        content["status"] = EndpointStatus(content["status"])
        for name in ("created", "modified"):
            content[name] = datetime.fromisoformat(content[name])
        return cls(**content)


@dataclass(frozen=True)
class Owner:
    """The account and the region that a resource belongs to."""

    account_id: str
    region: str


class Resources:
    """The stored resources of one kind: a JSON text for each name.

    Args:
        store: The server's storage.
        kind: Name of the kind, such as endpoint.
    """

    def __init__(self, store: Store, kind: str) -> None:
        self._store, self._kind = store, kind
        store.create_tables(SCHEMA)

    def write(self, owner: Owner, name: str, text: str) -> None:
        """Store the text of a resource, in place of an earlier one."""
        with self._store.transaction() as db:
            values = (self._kind, owner.account_id, owner.region, name, text)
            db.execute("INSERT OR REPLACE INTO endpoint_resources VALUES (?, ?, ?, ?, ?)", values)

    def delete(self, owner: Owner, name: str) -> None:
        """Delete a resource. Idempotent."""
        with self._store.transaction() as db:
            condition = "kind = ? AND account = ? AND region = ? AND name = ?"
            values = (self._kind, owner.account_id, owner.region, name)
            db.execute(f"DELETE FROM endpoint_resources WHERE {condition}", values)  # noqa: S608  a constant

    def list_texts(self, owner: Owner) -> list[str]:
        """Return the texts of an owner's resources, in the order of their creation."""
        return [text for resource_owner, text in self.iterate() if resource_owner == owner]

    def iterate(self) -> Iterator[tuple[Owner, str]]:
        """Yield the owner and the text of each resource, in the order of their creation."""
        statement = "SELECT account, region, record FROM endpoint_resources WHERE kind = ? ORDER BY rowid"
        for account, region, text in self._store.query(statement, (self._kind,)):
            yield Owner(account, region), text
