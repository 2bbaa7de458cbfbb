"""Collect the changes that one request makes to S3 objects and buckets, until they are stored or undone."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.s3.models import FakeBucket

from drydock.s3_store.blobs import BlobFolder
from drydock.s3_store.keys import StoredKey, StoredKeys

log = logging.getLogger(__name__)


@dataclass
class Transaction:
    """The changes of one request.

    Attributes:
        earlier_versions: For each object that the request changes, by bucket and name: the objects of the bucket, and
            the versions of the object before the change.
        created_versions: Versions that the request created.
        accessed_versions: Versions that the request looked up and may have changed (their tags, their ACL), by id().
        buckets: Buckets that the request looked up and may have changed, by name.
    """

    earlier_versions: dict[tuple[str, str], tuple[StoredKeys, list[Any]]] = field(default_factory=dict)
    created_versions: list[StoredKey] = field(default_factory=list)
    accessed_versions: dict[int, StoredKey] = field(default_factory=dict)
    buckets: dict[str, FakeBucket] = field(default_factory=dict)

    def add_earlier_versions(self, keys: StoredKeys, name: str) -> None:
        """Record the versions of a name before its first change. Later changes of the name add nothing."""
        self.earlier_versions.setdefault((keys.bucket_name, name), (keys, list(keys.getlist(name, []))))

    def list_differences(self) -> Iterator[tuple[str, str, list[Any], list[Any]]]:
        """Yield bucket, name, removed versions and added versions, in the order of the changes."""
        for (bucket, name), (keys, old_versions) in self.earlier_versions.items():
            new_versions = keys.getlist(name, [])
            yield bucket, name, _subtract(old_versions, new_versions), _subtract(new_versions, old_versions)

    def undo(self) -> None:
        """Restore the earlier versions of every name. Changes of tags, ACLs and buckets are not undone."""
        for (_, name), (keys, versions) in self.earlier_versions.items():
            keys.restore_versions(name, versions)

    def delete_unused_files(self, blobs: BlobFolder) -> None:
        """Delete the files of the versions that the request removed or created and that no object has any more.

        A file that cannot be deleted is logged, because the changes are stored already: the next start deletes it.
        """
        entries = self.earlier_versions.items()
        current_ids = {id(key) for (_, name), (keys, _) in entries for key in keys.getlist(name, [])}
        all_versions = [*self.created_versions, *(key for _, (_, versions) in entries for key in versions)]
        for key in all_versions:
            if id(key) not in current_ids and isinstance(key, StoredKey):
                try:
                    blobs.delete(key.blob.name)
                except OSError as error:
                    log.warning("an unused file of S3 cannot be deleted: %s", error)


def _subtract(versions: list[Any], other_versions: list[Any]) -> list[Any]:
    ids = {id(version) for version in other_versions}
    return [version for version in versions if id(version) not in ids]
