"""What one request does to the objects of S3, until it is kept or undone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.s3.models import FakeBucket

from drydock.s3_store.blobs import Blobs
from drydock.s3_store.keys import StoredKey, StoredKeys


@dataclass
class Change:
    """One request's doings.

    Args:
        before: The versions of each name that the request changes, as they were.
        adopted: Versions that it made.
        seen: Versions that it looked up, and may have changed (their tags, their access).
        buckets: Buckets that it looked up, and may have changed.
    """

    before: dict[tuple[str, str], tuple[StoredKeys, list[Any]]] = field(default_factory=dict)
    adopted: list[StoredKey] = field(default_factory=list)
    seen: dict[int, StoredKey] = field(default_factory=dict)
    buckets: dict[str, FakeBucket] = field(default_factory=dict)

    def remember(self, keys: StoredKeys, name: str) -> None:
        """The versions of a name are known as they were before the request."""
        self.before.setdefault((keys.bucket_name, name), (keys, list(keys.getlist(name, []))))

    def differences(self) -> Iterator[tuple[str, str, list[Any], list[Any]]]:
        """Yield bucket, name, the versions that went and the versions that came, in their order."""
        for (bucket, name), (keys, before) in self.before.items():
            now = keys.getlist(name, [])
            yield bucket, name, _without(before, now), _without(now, before)

    def undo(self) -> None:
        """Every name has the versions that it had."""
        for (_, name), (keys, before) in self.before.items():
            keys.put_back(name, before)

    def drop_files(self, blobs: Blobs) -> None:
        """The files of versions that are no more, or came to nothing, are gone."""
        current = {id(key) for (_, name), (keys, _) in self.before.items() for key in keys.getlist(name, [])}
        known = [*self.adopted, *(key for _, before in self.before.values() for key in before)]
        for key in known:
            if id(key) not in current and isinstance(key, StoredKey):
                blobs.delete(key.blob.name)


def _without(versions: list[Any], others: list[Any]) -> list[Any]:
    known = {id(version) for version in others}
    return [version for version in versions if id(version) not in known]
