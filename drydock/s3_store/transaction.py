"""The changes that one request makes to S3 objects, until they are committed or undone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.s3.models import FakeBucket

from drydock.s3_store.blobs import BlobFolder
from drydock.s3_store.keys import StoredKey, StoredKeys


@dataclass
class Transaction:
    """The changes of one request.

    Attributes:
        before: The earlier versions of each name that the request changes, by bucket and name.
        created: Versions that the request created.
        accessed: Versions that the request looked up and may have changed (their tags, their ACL), by id().
        buckets: Buckets that the request looked up and may have changed, by name.
    """

    before: dict[tuple[str, str], tuple[StoredKeys, list[Any]]] = field(default_factory=dict)
    created: list[StoredKey] = field(default_factory=list)
    accessed: dict[int, StoredKey] = field(default_factory=dict)
    buckets: dict[str, FakeBucket] = field(default_factory=dict)

    def record_versions(self, keys: StoredKeys, name: str) -> None:
        """Record the versions of a name before its first change."""
        self.before.setdefault((keys.bucket_name, name), (keys, list(keys.getlist(name, []))))

    def list_differences(self) -> Iterator[tuple[str, str, list[Any], list[Any]]]:
        """Yield bucket, name, removed versions and added versions, in the order of the changes."""
        for (bucket, name), (keys, before) in self.before.items():
            now = keys.getlist(name, [])
            yield bucket, name, _subtract(before, now), _subtract(now, before)

    def undo(self) -> None:
        """Give every name its earlier versions back."""
        for (_, name), (keys, before) in self.before.items():
            keys.restore_versions(name, before)

    def delete_unused_files(self, blobs: BlobFolder) -> None:
        """Delete the files of versions that were removed, or created and not used."""
        current = {id(key) for (_, name), (keys, _) in self.before.items() for key in keys.getlist(name, [])}
        candidates = [*self.created, *(key for _, before in self.before.values() for key in before)]
        for key in candidates:
            if id(key) not in current and isinstance(key, StoredKey):
                blobs.delete(key.blob.name)


def _subtract(versions: list[Any], others: list[Any]) -> list[Any]:
    ids = {id(version) for version in others}
    return [version for version in versions if id(version) not in ids]
