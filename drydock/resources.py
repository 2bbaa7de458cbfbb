"""Store resources such as models, endpoints and feature groups. Each is a JSON text with a name."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from drydock.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    kind TEXT, account TEXT, region TEXT, name TEXT, record TEXT, PRIMARY KEY (kind, account, region, name)
);
"""


@dataclass(frozen=True)
class Owner:
    """The account and the region that a resource belongs to."""

    account_id: str
    region: str


@dataclass
class StoredRequest:
    """A resource of which only the tags change after its creation. The attributes below are stored.

    Attributes:
        name: Name of the resource.
        arn: ARN of the resource.
        request: The request that created the resource, without its tags.
        created_at: CreationTime.
        tags: The tags. AddTags and DeleteTags change them.
    """

    name: str
    arn: str
    request: dict[str, Any]
    created_at: datetime
    tags: list[dict[str, str]] = field(default_factory=list)
    status = ""
    """Status in a List response; empty for a kind of resource that has none. It is not stored."""

    @property
    def modified_at(self) -> datetime:
        """The time of the creation. A change of the tags does not count."""
        return self.created_at

    def dump(self) -> str:
        """Return the resource as JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def load(cls, text: str) -> Self:
        """Create the resource from the JSON that `dump` returned."""
        content = json.loads(text)
        return cls(**{**content, "created_at": datetime.fromisoformat(content["created_at"])})


class Resources:
    """The stored resources of one kind, each as a text.

    Args:
        store: The server's storage.
        kind: Name of the kind, such as endpoint.
    """

    def __init__(self, store: Store, kind: str) -> None:
        self._store, self._kind = store, kind
        store.create_tables(SCHEMA)

    def write(self, owner: Owner, name: str, text: str) -> None:
        """Store the text of a resource, in place of an earlier one."""
        values = (self._kind, owner.account_id, owner.region, name, text)
        # REPLACE would move the row to the end. The order of the rows is the order of their creation.
        statement = "INSERT INTO resources VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET record = excluded.record"
        with self._store.transaction() as db:
            db.execute(statement, values)

    def delete(self, owner: Owner, name: str) -> None:
        """Delete a resource. Idempotent."""
        statement = "DELETE FROM resources WHERE kind = ? AND account = ? AND region = ? AND name = ?"
        with self._store.transaction() as db:
            db.execute(statement, (self._kind, owner.account_id, owner.region, name))

    def delete_all(self, owner: Owner) -> None:
        """Delete all of an owner's resources of this kind. Idempotent."""
        statement = "DELETE FROM resources WHERE kind = ? AND account = ? AND region = ?"
        with self._store.transaction() as db:
            db.execute(statement, (self._kind, owner.account_id, owner.region))

    def list_texts(self, owner: Owner) -> list[str]:
        """Return the texts of an owner's resources, in the order of their creation."""
        return [text for resource_owner, text in self.iterate() if resource_owner == owner]

    def iterate(self) -> Iterator[tuple[Owner, str]]:
        """Yield the owner and the text of each resource, in the order of their creation."""
        statement = "SELECT account, region, record FROM resources WHERE kind = ? ORDER BY rowid"
        for account, region, text in self._store.query(statement, (self._kind,)):
            yield Owner(account, region), text
