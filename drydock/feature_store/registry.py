"""The feature groups of all accounts and regions, and their records."""

import threading
from collections import defaultdict

from drydock.feature_store.group import FeatureGroup
from drydock.feature_store.records import FeatureRecords
from drydock.resources import Owner, Resources
from drydock.store import Store


class FeatureGroups:
    """The stored feature groups. Safe for several threads.

    Args:
        store: The server's storage.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._resources, self.records = store, Resources(store, "feature-group"), FeatureRecords(store)
        self._lock = threading.Lock()
        self._groups: dict[Owner, dict[str, FeatureGroup]] = defaultdict(dict)
        for owner, text in self._resources.iterate():
            group = FeatureGroup.load(text)
            self._groups[owner][group.name] = group

    def get_groups(self, owner: Owner) -> dict[str, FeatureGroup]:
        """Return the groups of an owner by their names. `create` and `delete` change the returned dictionary."""
        return self._groups[owner]

    def find(self, owner: Owner, name_or_arn: str) -> FeatureGroup | None:
        """Return a group; None if it does not exist."""
        groups = self._groups[owner]
        if not name_or_arn.startswith("arn:"):
            return groups.get(name_or_arn)
        return next((group for group in list(groups.values()) if group.arn == name_or_arn), None)

    def create(self, owner: Owner, group: FeatureGroup) -> bool:
        """Store a new group. Return False, and store nothing, if another group has the same ARN.

        Names that differ only in their case have the same ARN.
        """
        with self._lock:
            groups = self._groups[owner]
            if any(other_group.arn == group.arn for other_group in groups.values()):
                return False
            self.save(owner, group)
            groups[group.name] = group
            return True

    def save(self, owner: Owner, group: FeatureGroup) -> None:
        """Store a group with its tags, in place of what is stored."""
        self._resources.write(owner, group.name, group.dump())

    def delete(self, owner: Owner, name: str) -> None:
        """Delete a group with its records. Idempotent."""
        with self._lock:
            with self._store.transaction() as db:
                key = (owner.account_id, owner.region, name)
                db.execute("DELETE FROM feature_records WHERE account = ? AND region = ? AND feature_group = ?", key)
            self._resources.delete(owner, name)
            self._groups[owner].pop(name, None)

    def delete_all(self, owner: Owner) -> None:
        """Delete all groups of an owner."""
        for name in list(self._groups[owner]):
            self.delete(owner, name)
